"""How the page looks, by light, in the dark and on paper: one style sheet, for ``page``.

**Invariant:** colours come in pairs that the colour-blind tell apart, and never carry a meaning
alone.

Source: the palette of Okabe and Ito; the lighter of each where it stands on dark.
"""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root{color-scheme:light dark;
--page:#fcfcfb;--panel:#fff;--ink:#1c2024;--soft:#5d666f;--line:#dcdfe2;--faint:#eef0f1;
--link:#0b5c94;--good:#00664a;--bad:#a83a00;--doubtful:#7a5300;
--one:#0072b2;--two:#d55e00;--three:#6b7178;--four:#009e73;
--part1:#0072b2;--part2:#9fc9e6;--part3:#d55e00;--part4:#a9aeb3;
--h1:#eaf2f9;--h2:#cfe2f1;--h3:#a6cae4;--h4:#6aa7d2;--h5:#2a7ab5;--h6:#0a4f83;
--cool:#12202c;--hot:#fff}
@media (prefers-color-scheme:dark){:root{
--page:#14171a;--panel:#191d21;--ink:#dde1e4;--soft:#98a1a9;--line:#30363c;--faint:#22272c;
--link:#7cc0f0;--good:#4cc9a0;--bad:#ff9a5c;--doubtful:#e8b84a;
--one:#56b4e9;--two:#f0883e;--three:#9aa3ab;--four:#3fc79a;
--part1:#56b4e9;--part2:#2f5d7c;--part3:#f0883e;--part4:#5c646c;
--h1:#182834;--h2:#1b3a50;--h3:#1f5273;--h4:#2b7099;--h5:#56a5d3;--h6:#9ed3f2;
--cool:#dde6ec;--hot:#0b1822}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem 1.5rem 4rem;max-width:84rem;background:var(--page);
color:var(--ink);font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
h1{font-size:1.5rem;margin:0 0 .2rem;font-weight:650}
h2{font-size:1.2rem;margin:2.6rem 0 .7rem;padding-top:.7rem;border-top:2px solid var(--line)}
h3{font-size:1.05rem;margin:1.8rem 0 .4rem}
h4{font-size:.95rem;margin:1.2rem 0 .3rem}
h2,h3,h4{font-weight:650;break-after:avoid}
p{margin:.3rem 0}
a{color:var(--link)}
code{font:.92em ui-monospace,"DejaVu Sans Mono",Consolas,monospace;overflow-wrap:anywhere}
bdi{white-space:pre-wrap;overflow-wrap:anywhere}
.muted,.tally,nav,figcaption,dt,.lead{color:var(--soft)}
.muted{font-style:italic}
nav{margin:.9rem 0 0}
nav a{margin-right:1.1rem}
.findings{list-style:none;margin:1rem 0 0;padding:0;border:1px solid var(--line);
border-radius:6px;background:var(--panel)}
.findings li{display:grid;grid-template-columns:1.4rem 7rem 1fr;column-gap:.5rem;
padding:.45rem .8rem;border-top:1px solid var(--faint)}
.findings li:first-child{border-top:0}
.findings b{font-weight:400;color:var(--ink)}.findings b.bad{font-weight:650;color:var(--bad)}
.findings .about{color:var(--soft)}
.findings p{color:var(--soft);margin:.1rem 0 0;overflow-wrap:anywhere}
.findings .sign{font-weight:700;text-align:center}
.good{color:var(--good)}.bad{color:var(--bad)}.doubtful{color:var(--doubtful)}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(13rem,1fr));gap:.5rem 1.4rem;
margin:.6rem 0 1rem}
.facts div{min-width:0}
.facts div:has(code){grid-column:span 2}
dt{font-size:.82rem}
dd{margin:0;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
figure{margin:1.3rem 0 .6rem}
figcaption{margin-bottom:.25rem}
.plot{display:block;width:100%;max-width:60rem;background:var(--panel);
border:1px solid var(--line);border-radius:6px;padding:.4rem}
.plot text{font-size:11px;fill:var(--soft)}
.plot .title{fill:var(--soft)}
.grid{stroke:var(--faint)}.axis{stroke:var(--soft)}
.curve{fill:none;stroke-width:1.8;stroke-linejoin:round}
.curve-1{stroke:var(--one)}
.curve-2{stroke:var(--two);stroke-dasharray:7 3}
.curve-3{stroke:var(--three);stroke-dasharray:2 2.5}
.curve-4{stroke:var(--four);stroke-width:1.4;stroke-dasharray:9 4 2 4}
.marker{stroke:var(--bad);stroke-width:1.3}
.plot .halo{paint-order:stroke;stroke:var(--panel);stroke-width:4px}
.hint{fill:transparent}.hint:hover{fill:var(--ink);fill-opacity:.08}
.part-1{fill:var(--part1)}.part-2{fill:var(--part2)}
.part-3{fill:var(--part3)}.part-4{fill:var(--part4)}
.parts{margin:.8rem 0;max-width:60rem}
.whole{display:block;width:100%;height:.9rem;border-radius:3px;background:var(--faint)}
.legend{list-style:none;margin:.25rem 0 0;padding:0}
.legend li{display:inline-block;margin-right:1.4rem}
.side-by-side{display:grid;gap:0 1.6rem;
grid-template-columns:repeat(auto-fit,minmax(min(30rem,100%),1fr))}
.bars table{width:100%}
.bars td:first-child{width:99%;max-width:0;overflow:hidden;text-overflow:ellipsis;
white-space:nowrap}
.bars bdi{white-space:pre}
.bar{display:block}
.scrolled{overflow:auto;max-height:34rem;border:1px solid var(--line);border-radius:6px;
background:var(--panel);width:fit-content;max-width:100%;margin:.6rem 0}
figure .scrolled{max-height:none;margin:0 0 .3rem}
.bars .scrolled{width:auto}
.scrolled:focus-visible,a:focus-visible,button:focus-visible,input:focus-visible,
summary:focus-visible{outline:2px solid var(--link);outline-offset:1px}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.22rem .6rem;text-align:left;vertical-align:top;border-top:1px solid var(--faint)}
td{max-width:26rem;contain:paint}
.listing td:not([class]){min-width:11.5rem}
td:has(>code){max-width:none}
.short,.long{white-space:nowrap}.short bdi,.long bdi{white-space:pre}
.long{max-width:none}
thead th{position:sticky;top:0;z-index:1;background:var(--panel);border-top:0;
box-shadow:inset 0 -1px var(--line);font-size:.82rem;font-weight:600;color:var(--soft);
white-space:nowrap}
th.number,td.number{text-align:right}
td.number{white-space:nowrap}
tbody tr:hover{background:var(--faint)}
th button{all:unset;cursor:pointer;padding-right:.9rem;position:relative}
th button::after{content:"";position:absolute;right:0}
th.number button{padding:0 0 0 .9rem}
th.number button::after{right:auto;left:0}
th[aria-sort=ascending] button::after{content:"▴"}
th[aria-sort=descending] button::after{content:"▾"}
th button:hover,th[aria-sort=ascending],th[aria-sort=descending]{color:var(--ink)}
th button:focus-visible{outline:2px solid var(--link);outline-offset:1px}
.search{display:block;margin:.3rem 0 .4rem;color:var(--soft)}
.search input{font:inherit;color:inherit;background:var(--panel);margin-left:.5rem;
padding:.15rem .5rem;width:20rem;max-width:70%;border:1px solid var(--line);border-radius:4px}
.heat-map{border-collapse:separate;border-spacing:1px;font-size:.85rem}
.heat-map th{font-weight:400;border:0;background:var(--panel);color:var(--ink);box-shadow:none}
.heat-map thead th{vertical-align:bottom;padding:.3rem .1rem;z-index:1}
.heat-map thead th div{writing-mode:vertical-rl;transform:rotate(180deg);max-height:13rem;
overflow:hidden;text-overflow:ellipsis;margin:0 auto}
.heat-map bdi{white-space:pre}
.heat-map tbody th{position:sticky;left:0;padding:.15rem .5rem}
.heat-map tbody th div{max-width:17rem;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.heat-map td{border:0;text-align:right;min-width:2.7rem;padding:.15rem .3rem}
.heat-map tbody tr:hover{background:none}
.heat-map tbody tr:hover th{color:var(--link)}
.heat-0{background:var(--faint)}
.heat-1{background:var(--h1);color:var(--cool)}.heat-2{background:var(--h2);color:var(--cool)}
.heat-3{background:var(--h3);color:var(--cool)}.heat-4{background:var(--h4);color:var(--cool)}
.heat-5{background:var(--h5);color:var(--hot)}.heat-6{background:var(--h6);color:var(--hot)}
.swatch{display:inline-block;padding:.05rem .5rem;font-size:.82rem}
summary{cursor:pointer;color:var(--link);margin:.5rem 0}
@media (max-width:40rem){body{padding:1rem .7rem 3rem}
.side-by-side{grid-template-columns:minmax(0,1fr)}.findings li{grid-template-columns:1.2rem 1fr}
.findings .about{display:none}.facts div:has(code){grid-column:auto}}
@media print{
:root{color-scheme:light;--page:#fff;--panel:#fff;--ink:#000;--soft:#444;--line:#bbb;
--faint:#eee;--link:#000;--good:#00543c;--bad:#8a2f00;--doubtful:#5c3e00;
--one:#0072b2;--two:#d55e00;--three:#6b7178;--four:#009e73;
--part1:#0072b2;--part2:#9fc9e6;--part3:#d55e00;--part4:#a9aeb3;
--h1:#eaf2f9;--h2:#cfe2f1;--h3:#a6cae4;--h4:#6aa7d2;--h5:#2a7ab5;--h6:#0a4f83;
--cool:#12202c;--hot:#fff}
@page{margin:14mm}
body{max-width:none;padding:0;font-size:9pt}
nav,.search,summary{display:none}
.scrolled{overflow:visible;max-height:none;border:0;width:auto}
thead th{position:static}
td{max-width:none}
.listing{font-size:7.5pt}
.listing td{overflow-wrap:anywhere}
.heat-map{font-size:6.5pt}
.heat-map td{min-width:0;padding:.1rem .15rem}
.heat-map tbody th div{max-width:11rem}
.listing td:not([class]){min-width:0}
.short,.short bdi,.long,.long bdi{white-space:normal}
.listing tbody tr:nth-child(n+41 of :not([hidden])){display:none}
.searchable .tally::after{content:". On paper: the first 40 at most"}
figure,tr,.findings li{break-inside:avoid}
svg,.heat-map td,.swatch{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
""".strip()
