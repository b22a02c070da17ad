"""How many blocks of threads there are."""

# Rows that one block of an elementwise kernel visits, and the highest grid there is.
_ROWS, _HIGHEST = 4, 65_535


def over_rows(n_columns, n_rows, step, each=_ROWS):
    """Return the grid of a kernel whose blocks take `step` columns, and `each` so many rows.

    Of more rows than the highest grid has, blocks go round again.
    """
    return n_parts(n_columns, step), min(n_parts(n_rows, each), _HIGHEST)


def n_parts(n, size):
    return -(-n // size)


def round_up(n, multiple):
    return n_parts(n, multiple) * multiple
