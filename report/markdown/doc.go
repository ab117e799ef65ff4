// Package markdown writes a run, or a comparison of several, as a comment for a pull
// request.
//
// Texts of strangers are shown as code, and in no other way: in code, GitHub makes no
// links of addresses, names, numbers of issues and digests of commits, and draws neither
// pictures nor emoji. All that Markdown or HTML could read in them is written as character
// references, so that they stay one piece of code, one cell of a table, one line. A
// comment is shorter than GitHub's limit; what has no room is counted.
//
// It computes from results alone: the same ones give the same bytes.
package markdown
