"""Lists the functions of PromQL."""
