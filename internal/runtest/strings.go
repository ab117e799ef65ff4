package runtest

// Pwned is the name of the global variable that every script in [Attacks] sets if it runs.
const Pwned = "pwned"

// Outside is an address that nothing displayed may request. It is in a documentation
// network.
const Outside = "http://192.0.2.1/"

// Attacks returns texts that have an effect if they are displayed carelessly: markup,
// scripts, styles, URLs, template syntax, and control sequences.
func Attacks() []string {
	const set = "window." + Pwned + "=1"
	return []string{
		"<script>" + set + "</script>",
		"</script><script>" + set + "</script>",
		"</title></style></textarea></noscript><script>" + set + "</script>",
		"--></select></template></svg></math><script>" + set + "</script>",
		"<!--<script>", "<![CDATA[</pre></code></td></table>",
		"</details></section></main></body></html>",
		`<img src=x onerror="` + set + `">`,
		`"><img src=x onerror=` + set + `>`,
		`' onfocus='` + set + `' autofocus tabindex='1`,
		"<svg onload=" + set + "><use href=" + Outside + "></svg>",
		"<math><mtext><table><mglyph><style><!--</style><img title=\"--><img src=x onerror=" + set + ">\">",
		"<iframe srcdoc='<script>parent." + Pwned + "=1</script>'></iframe>",
		"<base href=" + Outside + "><form action=" + Outside + "><input autofocus onfocus=" + set + ">",
		"<meta http-equiv=refresh content='0;url=" + Outside + "'>",
		"<link rel=stylesheet href=" + Outside + "x.css><style>@import url(" + Outside + ");*{display:none}</style>",
		"red;background:url(" + Outside + ");position:fixed;inset:0", "x{}*{display:none!important}",
		"javascript:" + set, " java\tscript:" + set, "data:text/html,<script>" + set + "</script>",
		"[link](javascript:" + set + ")", "![picture](" + Outside + "p.png)",
		"${" + set + "}", "`${" + set + "}`", "{{constructor.constructor('" + set + "')()}}", "{{.}}{{template \"head\" .}}", "<%= " + set + " %>",
		"';" + set + "//", `\";` + set + "//", "\u2028" + set + "\u2029",
		"\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m", "\x9b31m\u0007\u0008\u007f", "\x00\x01",
		"safe\u202egnp.exe", "\u2066\u2067isolates", "zero\u200b\u200d\ufeffwidth", "tag\U000e0041\U000e0042",
		"Z\u0351\u0352\u0353\u0354\u0355\u0356\u0357\u0358\u0359\u035a\u035b\u035calgo", "not UTF-8: \xff\xfe\xc0\xaf",
		"::error file=x::forged", "| a | b |\n|---|---|", "@everyone #1 https://192.0.2.1/\n\n# heading",
	}
}
