"""One module per revision. They do not import the declarations in models, because those change later."""
