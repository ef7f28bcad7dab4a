"""How the page of an archive looks: light or dark, as the reader's system says; nothing comes from elsewhere."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root {
  color-scheme: light dark;
  --bg: #fff; --fg: #1c2024; --dim: #60646c; --line: #d9dce1; --box: #f6f7f9;
  --add: #176b2c; --add-bg: #e3f4e6; --del: #a3201f; --del-bg: #fbe6e5;
  --c0: #0b68cb; --c1: #8145b5; --c2: #a85300; --c3: #0d7a6f; --c4: #b3226f; --c5: #5c6b00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --bg: #111316; --fg: #e7e9ec; --dim: #a0a6ae; --line: #32373e; --box: #1a1d21;
    --add: #7ee08f; --add-bg: #13301b; --del: #ff9a94; --del-bg: #3b1614;
    --c0: #6fb6ff; --c1: #c9a0f0; --c2: #f0a95c; --c3: #5fd3c4; --c4: #f59ac9; --c5: #c3d165;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 64rem; padding: 1.5rem 1rem 4rem;
  background: var(--bg); color: var(--fg); font: 15px/1.5 system-ui, sans-serif;
}
h1 { font-size: 1.4rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: .85rem; color: var(--dim); margin: 1.6rem 0 .4rem; font-weight: 600; }
h3 { font-size: .85rem; margin: .9rem 0 .3rem; }
p { margin: .2rem 0; }
.dim { color: var(--dim); }
ol { list-style: none; margin: 0; padding: 0; }
li { border-left: 2px solid var(--line); padding: .15rem 0 .15rem 1rem; position: relative; }
li::before {
  content: ""; position: absolute; left: -6px; top: .85rem; width: 10px; height: 10px;
  border-radius: 50%; background: var(--b);
}
summary { cursor: pointer; padding: .35rem .5rem; border-radius: 6px; overflow-wrap: anywhere; }
summary:hover { background: var(--box); }
summary:focus-visible { outline: 2px solid var(--c0); }
.in { padding: .2rem .5rem 1rem 1.3rem; }
pre, td.v { font-family: ui-monospace, monospace; font-size: 13px; white-space: pre-wrap; }
pre {
  background: var(--box); border: 1px solid var(--line); border-radius: 6px; padding: .7rem; margin: .3rem 0;
  overflow-wrap: anywhere; max-height: 32rem; overflow: auto;
}
.tag {
  border: 1px solid var(--line); border-radius: 9px; padding: 0 .5rem; font-size: 12px; color: var(--dim);
}
.br { color: var(--b); font-weight: 600; font-size: 13px; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; }
td, th {
  text-align: left; vertical-align: top; padding: .15rem .5rem; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere;
}
th { font-weight: 400; color: var(--dim); width: 9rem; }
td.p { width: 30%; }
td.add { background: var(--add-bg); color: var(--add); }
td.remove { background: var(--del-bg); color: var(--del); }
.k0 { --b: var(--c0); } .k1 { --b: var(--c1); } .k2 { --b: var(--c2); }
.k3 { --b: var(--c3); } .k4 { --b: var(--c4); } .k5 { --b: var(--c5); }
"""
