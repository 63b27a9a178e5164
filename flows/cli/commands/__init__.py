"""The commands; `command_table` imports only the module of the called one."""
