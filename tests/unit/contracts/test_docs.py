"""The declarations in docs/contracts.md work as they stand there."""

from __future__ import annotations

import re

from penstock.model.stream import Stream


def test_the_examples_declare_what_they_say(project):
    text = (project / "docs" / "contracts.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict = {}
    for block in blocks:
        if "StreamProducer" in block:  # needs a broker
            compile(block, "docs/contracts.md", "exec")
            continue
        exec(compile(block, "docs/contracts.md", "exec"), names)
    declared = {str(value.name) for value in names.values() if isinstance(value, Stream)}
    assert declared == {"bronze.payments", "bronze.readings"}
