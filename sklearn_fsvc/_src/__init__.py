"""How the package is made. Names and places here may change with every version."""
