"""The client that runs a notebook's cells in a kernel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import nbformat
    from nbclient import NotebookClient


def client(book: nbformat.NotebookNode, folder: Path, seconds: float) -> NotebookClient:
    """Return a client that runs ``book`` in ``folder``, each cell for at most ``seconds``.

    nbclient reports what an Output widget shows back to the kernel, on the socket on which it waits
    for the cell's reply. About one such run in twenty never ended on two busy cores, and none did
    without the report (the send may take the event that announces the reply: ZeroMQ's file
    descriptor is edge-triggered). No cell of ours asks a widget for its output.
    """
    from nbclient import NotebookClient
    from nbclient.output_widget import OutputWidget

    def silent(*args: Any) -> OutputWidget:
        widget = OutputWidget(*args)
        widget.sync_state = lambda: None  # type: ignore[method-assign]
        return widget

    made = NotebookClient(
        book,
        timeout=seconds,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    made.widget_registry = {"@jupyter-widgets/output": {"OutputModel": silent}}
    return made
