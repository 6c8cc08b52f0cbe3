"""Commands that take one value: the fields of a dataclass are their parameters.

A command with twenty options is told in three places otherwise: in its signature, in its body, and in every function
that it calls. Here each option is a field, groups of options that several commands have are dataclasses of their own,
and what options mean together is a method beside them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Any, TypeVar, get_type_hints

T = TypeVar("T")


def takes(group: type[T]) -> Callable[[Callable[[T], None]], Callable[..., None]]:
    """Give a command that takes a dataclass the parameters that typer looks for: its fields.

    A field that is a dataclass itself stands for all of its fields.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Greeting:
    ...     name: str = "you"
    >>> @takes(Greeting)
    ... def greet(given: Greeting) -> None:
    ...     print(f"Hello, {given.name}.")
    >>> inspect.signature(greet)
    <Signature (*, name: str = 'you') -> None>
    >>> greet(name="Ada")
    Hello, Ada.
    """

    def parameters_of(work: Callable[[T], None]) -> Callable[..., None]:
        @wraps(work)
        def command(**given: Any) -> None:
            work(_built(group, given))

        parameters = list(_parameters(group))
        command.__signature__ = inspect.Signature(parameters, return_annotation=None)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return parameters_of


def _parameters(group: type[Any]) -> Iterator[inspect.Parameter]:
    kinds = get_type_hints(group, include_extras=True)
    for field in fields(group):
        kind = kinds[field.name]
        if is_dataclass(kind):
            yield from _parameters(kind)  # type: ignore[arg-type] # it is a class, for it is a type
        else:
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            yield inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _built(group: type[T], given: Mapping[str, Any]) -> T:
    """A value of the dataclass from its parameters."""
    kinds = get_type_hints(group)
    return group(
        **{
            field.name: _built(kinds[field.name], given) if is_dataclass(kinds[field.name]) else given[field.name]
            for field in fields(group)  # type: ignore[arg-type] # as the caller says
        }
    )
