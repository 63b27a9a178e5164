"""One module per revision. None imports the declarations in models: those go on living, a revision does not."""
