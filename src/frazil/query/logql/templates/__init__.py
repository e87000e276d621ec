"""Is a small interpreter for Go's text/template, as LogQL uses it to make lines and labels."""
