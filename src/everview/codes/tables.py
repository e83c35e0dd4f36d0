"""Tables of other libraries as named columns.

Nothing here imports pandas or polars: a frame is recognised by the module of its class, so its library is loaded
already. Columns stay Arrow or NumPy arrays; `arrays` encodes them.

pandas has one missing value for everything. NaN in a *nullable* float column of a pandas frame is therefore NULL (in a
column without NULLs it is NaN), and ints that pandas turned into floats because some are missing become ints again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from everview.codes.scalars import counted, shown, wrong_type
from everview.errors import InputError
from everview.types import DataType


def is_table(data: Any) -> bool:
    """Whether data comes as columns rather than rows.

    >>> is_table({"x": [1]}), is_table([(1,)])
    (True, False)
    """
    if isinstance(data, np.ndarray):
        return bool(data.dtype.kind != "O")
    return isinstance(data, (pa.Table, pa.RecordBatch, Mapping)) or _library(data) != "" or _streams(data)


def columns_of(data: Any) -> dict[str, Any] | list[Any]:
    """The columns of a table by name, or in order if they have no names.

    >>> columns_of(np.array([[1, 2], [3, 4]]))
    [array([1, 3]), array([2, 4])]
    """
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        return _distinct(data.schema.names, data.columns)
    if isinstance(data, np.ndarray):
        return _numpy_columns(data)
    if isinstance(data, Mapping):
        return {name: _column(name, values) for name, values in data.items()}
    if _library(data) == "pandas":
        return _distinct([*data.columns], [data.iloc[:, i] for i in range(data.shape[1])])
    if _library(data) == "polars":
        data = data.to_arrow()
    elif _streams(data):
        data = pa.table(data)
    else:
        raise wrong_type(data, "a table", "give an Arrow table, a pandas or polars frame, or a dict of columns")
    return _distinct(data.schema.names, data.columns)


def _library(data: Any) -> str:
    """`pandas` or `polars` if data is a frame of that library."""
    origin = type(data).__module__.partition(".")[0]
    return origin if origin in ("pandas", "polars") and hasattr(data, "columns") else ""


def _streams(data: Any) -> bool:
    return hasattr(data, "__arrow_c_stream__")


def _distinct(names: Sequence[Any], columns: Sequence[Any]) -> dict[str, Any]:
    """Columns by name, refusing duplicate names."""
    found = {str(name): column for name, column in zip(names, columns, strict=True)}
    if len(found) < len(names):
        twice = next(name for i, name in enumerate(names) if str(name) in map(str, names[:i]))
        raise InputError("E_COLUMN", f"the table has two columns {twice!r}", "rename or drop one of them")
    return found


def _numpy_columns(data: np.ndarray[Any, Any]) -> dict[str, Any] | list[Any]:
    if data.dtype.names:
        return {name: data[name].reshape(-1) for name in data.dtype.names}
    if data.ndim != 2:
        hint = "give an array of shape (rows, columns), or a dict of columns"
        raise InputError("E_WIDTH", f"an array of {counted(data.ndim, 'dimension')} is not a table", hint)
    return [data[:, i] for i in range(data.shape[1])]


def _column(name: Any, values: Any) -> Any:
    """One column of a dict: arrays and pandas series stay, other iterables become lists."""
    if isinstance(values, (np.ndarray, pa.Array, pa.ChunkedArray, list, tuple)) or is_series(values):
        return values
    if type(values).__module__.partition(".")[0] == "polars":
        return values.to_arrow()
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        hint = "a single row goes into a list: [{...}]"
        raise InputError("E_TYPE", f"column {name!r} is {shown(values)}, not a list of values", hint)
    return [*values]


def is_series(values: Any) -> bool:
    """Whether values is a pandas series."""
    return type(values).__module__.partition(".")[0] == "pandas"


def of_series(series: Any, declared: DataType) -> Any:
    """The values of a pandas series as an array or list, with missing ones as null."""
    if series.dtype == object:
        return series.where(series.notna(), None).tolist()
    if getattr(series.dtype, "kind", "") != "f" or not isinstance(series.dtype, np.dtype):
        return pa.Array.from_pandas(series)
    if declared.kind == "float" and not declared.nullable:
        return series.to_numpy()
    array = pa.Array.from_pandas(series)
    if declared.kind == "int":
        try:
            return array.cast(pa.int64())
        except pa.ArrowInvalid:
            return series.tolist()  # the values explain what is wrong
    return array
