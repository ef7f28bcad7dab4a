"""How the page of an archive looks: light or dark, as the reader's system says; nothing comes from elsewhere.

Every colour of text has a contrast of 4.5 to 1 at least on everything that it may stand on, in both; a test works it
out. On paper the page is light, and what is open is whole.
"""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root {
  color-scheme: light dark;
  --bg: #fff; --fg: #1c2024; --dim: #5c6068; --line: #d9dce1; --box: #f6f7f9;
  --add: #14602a; --add-bg: #e3f4e6; --add-mark: #bfe6c8; --del: #951b1a; --del-bg: #fbe6e5; --del-mark: #f6c9c7;
  --c0: #0b68cb; --c1: #8145b5; --c2: #a85300; --c3: #0d7a6f; --c4: #b3226f; --c5: #5c6b00;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --bg: #111316; --fg: #e7e9ec; --dim: #a0a6ae; --line: #32373e; --box: #1a1d21;
    --add: #8be69b; --add-bg: #13301b; --add-mark: #1f5530; --del: #ffaba6; --del-bg: #3b1614; --del-mark: #6b2421;
    --c0: #6fb6ff; --c1: #c9a0f0; --c2: #f0a95c; --c3: #5fd3c4; --c4: #f59ac9; --c5: #c3d165;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 68rem; padding: 1.5rem 1rem 3rem;
  background: var(--bg); color: var(--fg); font: 15px/1.5 system-ui, sans-serif;
}
h1 { font-size: 1.4rem; line-height: 1.25; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: .85rem; color: var(--dim); margin: 1.6rem 0 .3rem; font-weight: 600; }
h3 { font-size: .85rem; margin: 1rem 0 .35rem; }
p { margin: .2rem 0; overflow-wrap: anywhere; }
footer { margin-top: 2rem; font-size: 13px; }
ol, ul { list-style: none; margin: 0; padding: 0; }
code, pre, del, ins { font-family: ui-monospace, monospace; font-size: 13px; overflow-wrap: anywhere; }
a { color: inherit; }
a:focus-visible, summary:focus-visible, pre:focus-visible { outline: 2px solid var(--c0); outline-offset: -2px; }
nav ul { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; margin-top: .4rem; }
nav li::before, ol > li::before {
  content: ""; width: 10px; height: 10px; border-radius: 50%; background: var(--b);
}
nav li::before { display: inline-block; margin-right: .4rem; }
.dim, .n, summary time, dt { color: var(--dim); }
.br { color: var(--b, inherit); font-weight: 600; font-size: 13px; overflow-wrap: anywhere; }
ol > li {
  position: relative; padding-left: 1.35rem;
  background: linear-gradient(var(--line), var(--line)) 4px 0 / 2px 100% no-repeat;
  content-visibility: auto; contain-intrinsic-size: auto 2.1rem;
}
ol > li::before { position: absolute; left: 0; top: .7rem; }
ol > li.m::before { border-radius: 2px; transform: rotate(45deg); }
ol > li:target > details > summary { background: var(--box); box-shadow: inset 3px 0 var(--b); }
summary {
  display: grid; grid-template-columns: .8rem 3.6rem 4.4rem var(--w) minmax(0, 1fr);
  gap: 0 .6rem; align-items: baseline;
  cursor: pointer; padding: .3rem .5rem; border-radius: 6px; font-variant-numeric: tabular-nums;
}
summary::-webkit-details-marker { display: none; }
summary::before {
  content: ""; align-self: start; justify-self: center; margin-top: .45rem;
  border: solid transparent; border-width: 4px 0 4px 6px; border-left-color: var(--dim);
}
details[open] > summary::before { transform: rotate(90deg); }
summary:hover { background: var(--box); }
.msg { overflow-wrap: anywhere; }
details:not([open]) > summary > .br { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
details:not([open]) > summary > .msg {
  display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 3; overflow: hidden;
}
.long { white-space: pre-wrap; }
.in { padding: .2rem .5rem 1.2rem 1.9rem; }
.tag {
  border: 1px solid var(--line); border-radius: 9px; padding: 0 .5rem; font-size: 12px; color: var(--dim);
  overflow-wrap: anywhere;
}
dl { display: flex; flex-wrap: wrap; gap: .35rem 1.6rem; margin: .3rem 0; }
dl div { min-width: 0; }
dl div:first-child { flex-basis: 100%; }
dt { font-size: 12px; line-height: 1.3; }
dd { margin: 0; overflow-wrap: anywhere; }
.ch > li {
  display: grid; grid-template-columns: minmax(6rem, 26%) minmax(0, 1fr); gap: .1rem .8rem;
  padding: .3rem 0; border-top: 1px solid var(--line);
}
.ch > li.dim { display: block; }
del, ins {
  display: block; position: relative; text-decoration: none; white-space: pre-wrap; padding: .1rem .5rem .1rem 1.5rem;
}
del { background: var(--del-bg); color: var(--del); }
ins { background: var(--add-bg); color: var(--add); }
del::before, ins::before { content: "+"; position: absolute; left: .5rem; }
del::before { content: "\\2212"; }
mark { color: inherit; border-radius: 2px; font-weight: 600; }
del mark { background: var(--del-mark); }
ins mark { background: var(--add-mark); }
pre {
  background: var(--box); border: 1px solid var(--line); border-radius: 6px; padding: .7rem; margin: 0;
  white-space: pre-wrap; max-height: 32rem; overflow: auto;
}
.w0 { --w: 3.2rem; } .w1 { --w: 6rem; } .w2 { --w: 9rem; }
.k0 { --b: var(--c0); } .k1 { --b: var(--c1); } .k2 { --b: var(--c2); }
.k3 { --b: var(--c3); } .k4 { --b: var(--c4); } .k5 { --b: var(--c5); }
@media (max-width: 40rem) {
  summary { grid-template-columns: .8rem auto auto minmax(0, 1fr); }
  .msg { grid-column: 2 / -1; }
  .in { padding: .2rem 0 1.2rem .2rem; }
  .ch > li { grid-template-columns: minmax(0, 1fr); }
  pre { max-height: 70vh; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  pre { max-height: none; overflow: visible; }
  ol > li { content-visibility: visible; }
  summary, .ch > li { break-inside: avoid; }
  nav, footer { display: none; }
}
"""
