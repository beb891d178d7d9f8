"""The billing exports of the clouds, read line by line: what they say of one run."""
