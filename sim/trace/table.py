"""CSV with a header: columns by name, cells by line, every mistake with its place."""

import csv
from collections.abc import Iterator, Sequence

from sim.errors import printable
from sim.trace.reading import Reading
from sim.trace.source import Source

Column = tuple[str, ...]  # the names that a column goes by; the first is the usual one


def header_cells(line: str) -> list[str]:
    """The column names in a header line."""
    return [cell.strip() for cells in csv.reader([line]) for cell in cells]


def has_column(header: Sequence[str], column: Column) -> bool:
    """Whether one of the column's names is in the header; upper and lower case are the same."""
    known = {cell.lower() for cell in header}
    return any(name.lower() in known for name in column)


def read_table(
    source: Source, columns: Sequence[Column], reading: Reading, *, optional: Sequence[Column] = ()
) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of each row: `columns` in order, then `optional` ("" where a file has none).

    Columns that nobody asked for are noted. Raises `InputError` for a missing or repeated column, and for
    a row that has not as many cells as the header.
    """
    number, line = source.first_line()
    header = header_cells(line)
    places = [_place(source, number, header, column, required=True) for column in columns]
    places += [_place(source, number, header, column, required=False) for column in optional]
    unused = [cell for place, cell in enumerate(header) if place not in places]
    if unused:
        reading.notes.append(printable(f"columns not used: {', '.join(unused)}"))
    for row_number, cells in _rows(source, number):
        if len(cells) != len(header):
            raise source.error(f"{len(cells)} cells must be {len(header)}, as in the header", line=row_number)
        yield row_number, [cells[place] if place is not None else "" for place in places]


def _place(source: Source, line: int, header: list[str], column: Column, *, required: bool) -> int | None:
    wanted = {name.lower() for name in column}
    found = [place for place, cell in enumerate(header) if cell.lower() in wanted]
    if len(found) > 1:
        raise source.error("the header has the column twice; remove one", line=line, field=header[found[1]])
    if not found and required:
        problem = f"the column is missing; the header has {', '.join(header)[:200]}"
        raise source.error(problem, line=line, field=" or ".join(column))
    return found[0] if found else None


def _rows(source: Source, header_line: int) -> Iterator[tuple[int, list[str]]]:
    """Rows below the header; blank lines are passed over."""
    reader = csv.reader(source.lines[header_line:], strict=True)
    while True:
        start = header_line + reader.line_num + 1  # a quote that is not closed would end much later
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise source.error(f"is not CSV: {error}", line=start) from None
        if len(cells) > 1 or (cells and cells[0].strip()):
            yield start, cells
