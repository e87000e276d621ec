"""The command `frazil`. `commands` lists what there is, each command is a module, `app` runs them."""
