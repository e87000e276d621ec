"""The command `frazil`: `commands` lists the commands, each command is a module, and `app` runs them."""
