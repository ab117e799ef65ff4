package part

import (
	"maps"
	"slices"
	"strings"
)

// Markups returns, by attack, texts that HTML, JUnit or Markdown would interpret as markup.
// Each contains its mark, as in Sayings.
func Markups() map[string]string {
	return map[string]string{
		"page-element":       `<img src=x onerror=console.log("element-mark") alt=element-mark><iframe src=//element-mark.invalid></iframe><form action=//element-mark.invalid><input name=element-mark></form>`,
		"page-script":        `</script></SCRIPT ><script>console.log("script-mark")</script><svg><script href="//script-mark.invalid"></script></svg>`,
		"page-head":          `</title></style></textarea></noscript></template></select></head><base href=//head-mark.invalid><meta http-equiv=refresh content="0;//head-mark.invalid"><link rel=stylesheet href=//head-mark.invalid><style>@import "//head-mark.invalid"</style>`,
		"page-comment":       `<!--comment-mark--!> <?comment-mark?> <![CDATA[comment-mark]]> <!-- comment-mark -->`,
		"page-attribute":     "x\" onmouseover=\"attribute-mark\" style=\"color:attribute-mark\" x='' onfocus='attribute-mark' `onclick=`attribute-mark` autofocus=",
		"page-address":       `javascript:console.log('address-mark') JaVa	ScRiPt:address-mark data:text/html,address-mark vbscript:address-mark //address-mark.invalid`,
		"page-entity":        `&lt;b&gt;entity-mark &#x3c;script&#x3e; &entity-mark; &#8238; &#27;[2J`,
		"junit-case":         `]]></system-out></failure></testcase><testcase name='case-mark'/><!DOCTYPE case-mark [<!ENTITY a "case-mark">]>`,
		"markdown-link":      `[link](http://linked-mark.invalid) ![image](http://linked-mark.invalid/i.png) <http://linked-mark.invalid> http://linked-mark.invalid www.linked-mark.invalid [x]: http://linked-mark.invalid`,
		"markdown-name":      `@mention-mark mention-mark/mention-mark#1 #4711 GH-4711 mention@mention-mark.invalid`,
		"markdown-structure": "\n# structure-mark\n\n| structure-mark |\n|---|\n| structure-mark |\n\n```\n~~~~\n````structure-mark\n\n- [x] structure-mark\n\n> structure-mark\n\n---\n\n    structure-mark\n\n**structure-mark** _structure-mark_ ~~structure-mark~~ `structure-mark` | structure-mark |\n",
		"markdown-break":     `</details></summary></pre></code></table><details open><summary>break-mark</summary><a href="http://break-mark.invalid">break-mark</a><!-- break-mark -->`,
	}
}

// Said returns every saying and markup, each on its own lines.
func Said() string {
	all := Sayings()
	maps.Copy(all, Markups())
	var b strings.Builder
	for _, attack := range slices.Sorted(maps.Keys(all)) {
		b.WriteString(all[attack] + "\n")
	}
	return b.String()
}

// Unprintable consists of characters that text files must not contain: NUL and other
// control characters, characters that XML forbids, invalid UTF-8, and an encoded surrogate.
const Unprintable = "\x00\x01\x08\x0b\x0c\x0e\x1f\x7f\u0085\u2028\ufeff\ufffe\uffff\U000e0041\xff\xfe\xc0\x80\xed\xa0\x80 unprintable-mark"

// Huge is the attack by quantity on everything that displays output: HugeText bytes of
// text, HugeNames tools, HugeCalls calls of tools whose names have HugeName bytes, lists of
// length HugeList, and JSON of depth HugeDepth, which is the limit for messages.
const (
	Huge      = "huge-text"
	HugeText  = 5 << 20
	HugeNames = 10_000
	HugeName  = 64 << 10
	HugeCalls = 100
	HugeList  = 100_000
	HugeDepth = 9_990
)
