package strictyaml

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/waza-isolate/waza/internal/defence"
)

// bareFraction matches a number without digits before the point.
var bareFraction = regexp.MustCompile(`^(-?)\.([0-9])`)

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// converter converts the parser's tree to nodes, and rejects unsupported parts of YAML.
type converter struct {
	doc     *Document
	anchors map[string]*node
	laid    int // number of keys added, or considered, because of merge keys
}

func (c *converter) node(n *yaml.Node, depth int) *node {
	made := c.value(n, depth)
	if n.Anchor != "" {
		c.anchors[n.Anchor] = made
	}
	return made
}

func (c *converter) value(n *yaml.Node, depth int) *node {
	pos := c.start(n)
	switch {
	case depth > maxDepth:
		return c.refuse(pos, tooDeep())
	case n.Kind == yaml.AliasNode:
		return c.alias(n.Value, pos)
	case n.Style&yaml.TaggedStyle != 0 || n.Tag == "!":
		return c.refuse(pos, fmt.Sprintf("YAML tags such as %s are not supported; write the value without it", n.Tag))
	case n.Kind == yaml.SequenceNode:
		return c.list(n, pos, depth)
	case n.Kind == yaml.MappingNode:
		return c.mapping(n, pos, depth)
	}
	written := c.doc.written(n.Value)
	switch n.Tag {
	case "!!null":
		return &node{kind: null, pos: pos, size: 1}
	case "!!bool":
		return &node{kind: boolean, pos: pos, text: strings.ToLower(written), written: written, size: 1}
	}
	if n.Style != 0 {
		return &node{kind: text, pos: pos, text: written, size: 1}
	}
	return plain(written, n.Tag, pos)
}

// start returns the start position of a value: for a mapping, that of its first key; for a block
// list, that of its first dash, which an anchor may precede.
func (c *converter) start(n *yaml.Node) Position {
	switch {
	case n.Kind == yaml.MappingNode && len(n.Content) > 0:
		return position(n.Content[0])
	case n.Kind == yaml.SequenceNode && n.Anchor != "" && n.Style&yaml.FlowStyle == 0:
		for number := n.Line + 1; number <= len(c.doc.lines); number++ {
			line := c.doc.lines[number-1]
			if dash := strings.TrimLeft(line, " "); strings.HasPrefix(dash, "-") {
				return Position{number, len(line) - len(dash) + 1}
			}
		}
	}
	return position(n)
}

func (c *converter) refuse(pos Position, message string) *node {
	c.doc.fail(pos, message)
	return &node{kind: broken, pos: pos, size: 1}
}

// plain returns a string or a number of any size that is written without quotes and that the parser
// has tagged.
func plain(written, tag string, pos Position) *node {
	digits := bareFraction.ReplaceAllString(written, "${1}0.${2}") // as JSON writes it
	switch {
	case !jsonNumber.MatchString(digits):
		return &node{kind: text, odd: tag == "!!int" || tag == "!!float", pos: pos, text: written, size: 1}
	case strings.ContainsAny(digits, ".eE"):
		return &node{kind: float, pos: pos, text: digits, written: written, size: 1}
	}
	return &node{kind: integer, pos: pos, text: digits, written: written, size: 1}
}

func (c *converter) alias(name string, pos Position) *node {
	target, ok := c.anchors[name]
	if !ok {
		return c.refuse(pos, fmt.Sprintf("alias *%s has no anchor &%[1]s before it", name))
	}
	return target
}

func (c *converter) list(n *yaml.Node, pos Position, depth int) *node {
	made := &node{kind: list, pos: pos, size: 1}
	for _, item := range n.Content {
		child := c.node(item, depth+1)
		made.items = append(made.items, child)
		c.grow(made, child)
	}
	return made
}

func (c *converter) mapping(n *yaml.Node, pos Position, depth int) *node {
	if len(n.Content) == 2 && n.Content[0].Kind == yaml.MappingNode && n.Style&n.Content[0].Style&yaml.FlowStyle != 0 {
		return c.refuse(position(n), "a value with {{ must be in quotes")
	}
	made := &node{kind: mapping, pos: pos, size: 1, index: map[string]int{}}
	var merged []*node
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		keyPos := c.start(key)
		if key.Tag == "!!merge" {
			merged = append(merged, c.merged(value, keyPos, depth+1)...)
			continue
		}
		name, ok := c.key(key, keyPos, depth+1)
		child := c.node(value, depth+1)
		if child.kind == null {
			child = &node{kind: null, pos: keyPos, size: 1}
		}
		c.grow(made, child)
		if !ok {
			continue
		}
		if first := made.pair(name); first != nil {
			c.doc.fail(keyPos, fmt.Sprintf("duplicate key %q; it is already on line %d, so remove one of them", name, first.keyPos.Line))
			continue
		}
		made.add(pair{name, keyPos, child})
	}
	for _, other := range merged {
		c.laid += len(other.pairs)
		if c.laid > maxNodes {
			return c.refuse(pos, fmt.Sprintf("merge keys (<<) lay more than %d keys", maxNodes))
		}
		for _, p := range other.pairs {
			if made.pair(p.key) == nil {
				made.add(p)
				c.grow(made, p.value)
			}
		}
	}
	return made
}

// merged returns the mappings that a merge key (<<) refers to: one, or those in a list, in
// order of precedence.
func (c *converter) merged(value *yaml.Node, pos Position, depth int) []*node {
	n := c.node(value, depth)
	all := []*node{n}
	if n.kind == list {
		all = n.items
	}
	for _, one := range all {
		if one.kind != mapping && one.kind != broken {
			c.doc.fail(pos, "a merge key (<<) takes a mapping, or a list of mappings")
			return nil
		}
	}
	return all
}

// key returns the text of a key.
func (c *converter) key(key *yaml.Node, pos Position, depth int) (string, bool) {
	made := c.node(key, depth)
	if made.kind == text && !made.odd {
		return made.text, true
	}
	if made.kind != broken {
		c.doc.fail(pos, "a key must be a string; put it in quotes")
	}
	return "", false
}

// grow adds the size and height of child to parent, and reports once if a limit is
// exceeded: aliases can make large and deep trees from small files.
func (c *converter) grow(parent, child *node) {
	within := parent.inBounds() && child.inBounds()
	parent.size = min(parent.size+child.size, maxNodes+1)
	parent.height = min(max(parent.height, child.height+1), maxDepth+1)
	if within && !parent.inBounds() {
		c.doc.fail(parent.pos, fmt.Sprintf("the file has more than %d values or %d levels with its aliases written out; split it, or use fewer aliases", maxNodes, maxDepth))
	}
}

func (n *node) inBounds() bool {
	return (n.size <= maxNodes || !defence.BoundedAliases) && n.height <= maxDepth
}
