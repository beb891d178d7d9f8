# Completion of cloudgan in bash: made by the installed program, so that it knows its flags.
source <(cloudgan completion bash)
