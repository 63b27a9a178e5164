"""The commands, one module each; `command_table` imports the one that is typed."""
