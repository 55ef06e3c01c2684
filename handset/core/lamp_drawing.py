"""The lamp's patterns as a picture: ``python -m handset.core.lamp_drawing`` prints it as SVG."""

from __future__ import annotations

from handset.core.lamp import PATTERNS, PRECEDENCE, Pattern

COLOURS = {
    "off": "#30363d",
    "white": "#f0f6fc",
    "red": "#f85149",
    "green": "#3fb950",
    "blue": "#58a6ff",
    "amber": "#d29922",
    "cyan": "#39c5cf",
    "magenta": "#db61a2",
}
_ROW, _NAME, _TOP, _RIGHT = 22, 190, 34, 16
_PX_PER_MS = 0.13


def spans(pattern: Pattern, until_ms: int) -> list[tuple[int, int]]:
    """When it is lit, from its begin to ``until_ms``: (from, to) in ms, in order."""
    if not any(ms for _, ms in pattern.steps):
        return [(0, until_ms)] if pattern.steps[0][0] else []
    found: list[tuple[int, int]] = []
    at = 0
    while at < until_ms:
        for lit, ms in pattern.steps:
            end = min(at + ms, until_ms)
            if lit and at < end:
                joined = found and found[-1][1] == at
                found[-1:] = [(found[-1][0], end)] if joined else [*found[-1:], (at, end)]
            at += ms
    return found


def svg(seconds: int = 4) -> str:
    """Every pattern over its first seconds, in the order of precedence."""
    until = seconds * 1_000
    width = round(_NAME + until * _PX_PER_MS + _RIGHT)
    height = _TOP + _ROW * len(PRECEDENCE) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#0d1117"/>',
    ]
    for second in range(seconds + 1):
        x = _NAME + second * 1_000 * _PX_PER_MS
        parts.append(
            f'<line x1="{x:g}" x2="{x:g}" y1="{_TOP - 8}" y2="{height - 8}" stroke="#30363d"/>'
            f'<text x="{x:g}" y="18" fill="#8b949e" text-anchor="middle">{second} s</text>'
        )
    for row, (state, _) in enumerate(PRECEDENCE):
        pattern, y = PATTERNS[state], _TOP + row * _ROW
        parts.append(f'<text x="12" y="{y + 12}" fill="#c9d1d9">{state.replace("_", " ")}</text>')
        parts.append(
            f'<rect x="{_NAME}" y="{y + 7}" width="{until * _PX_PER_MS:g}" height="2" '
            f'fill="#30363d"/>'
        )
        parts += [
            f'<rect x="{_NAME + start * _PX_PER_MS:g}" y="{y + 1}" '
            f'width="{(end - start) * _PX_PER_MS:g}" height="14" rx="2" '
            f'fill="{COLOURS[pattern.colour]}"/>'
            for start, end in spans(pattern, until)
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    print(svg(), end="")
