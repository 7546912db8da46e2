"""The kinds of figures, one file each; `registry` lists them."""
