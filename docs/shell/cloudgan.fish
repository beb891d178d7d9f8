# Completion of cloudgan in fish: made by the installed program, so that it knows its flags.
cloudgan completion fish | source
