package strictyaml

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
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

func (c *converter) node(n ast.Node, depth int) *node {
	if n == nil {
		return &node{kind: null, size: 1}
	}
	pos := start(n)
	if depth > maxDepth {
		return c.refuse(pos, tooDeep())
	}
	switch n := n.(type) {
	case *ast.NullNode:
		return &node{kind: null, pos: pos, size: 1}
	case *ast.BoolNode:
		return &node{kind: boolean, pos: pos, text: fmt.Sprint(n.Value), written: n.Token.Value, size: 1}
	case *ast.IntegerNode:
		return c.number(integer, pos, n.Token.Value)
	case *ast.FloatNode:
		return c.number(float, pos, n.Token.Value)
	case *ast.InfinityNode, *ast.NanNode:
		return c.number(float, pos, n.GetToken().Value)
	case *ast.StringNode:
		return plainOrText(n, pos)
	case *ast.LiteralNode:
		return &node{kind: text, pos: pos, text: n.Value.Value, size: 1}
	case *ast.SequenceNode:
		return c.list(n, pos, depth)
	case *ast.MappingNode:
		return c.mapping(n.Values, pos, depth)
	case *ast.MappingValueNode:
		return c.mapping([]*ast.MappingValueNode{n}, pos, depth)
	case *ast.AnchorNode:
		value := c.node(n.Value, depth+1)
		c.anchors[n.Name.String()] = value
		return value
	case *ast.AliasNode:
		return c.alias(n, pos)
	case *ast.TagNode:
		return c.refuse(pos, fmt.Sprintf("YAML tags such as %s are not supported; write the value without it", n.Start.Value))
	default:
		return c.refuse(pos, "this part of YAML is not supported; write it more plainly")
	}
}

func (c *converter) refuse(pos Position, message string) *node {
	c.doc.fail(pos, ErrInvalid, message)
	return &node{kind: broken, pos: pos, size: 1}
}

func (c *converter) number(k kind, pos Position, digits string) *node {
	written := digits
	digits = bareFraction.ReplaceAllString(digits, "${1}0.${2}") // as JSON writes it
	if !jsonNumber.MatchString(digits) {
		return &node{kind: text, odd: true, pos: pos, text: written, size: 1}
	}
	return &node{kind: k, pos: pos, text: digits, written: written, size: 1}
}

// plainOrText returns a string, or a number that the parser returns as a string: one with
// an exponent and no point, or an integer of more than 64 bits.
func plainOrText(n *ast.StringNode, pos Position) *node {
	if n.Token.Type != token.StringType || !jsonNumber.MatchString(n.Value) {
		return &node{kind: text, pos: pos, text: n.Value, size: 1}
	}
	if strings.ContainsAny(n.Value, ".eE") {
		return &node{kind: float, pos: pos, text: n.Value, written: n.Value, size: 1}
	}
	return &node{kind: integer, pos: pos, text: n.Value, written: n.Value, size: 1}
}

func (c *converter) alias(n *ast.AliasNode, pos Position) *node {
	target, ok := c.anchors[n.Value.String()]
	if !ok {
		return c.refuse(pos, fmt.Sprintf("alias *%s has no anchor &%[1]s before it", n.Value.String()))
	}
	return target
}

func (c *converter) list(n *ast.SequenceNode, pos Position, depth int) *node {
	made := &node{kind: list, pos: pos, size: 1}
	for _, item := range n.Values {
		child, ok := joined(item)
		if !ok {
			child = c.node(item, depth+1)
		}
		made.items = append(made.items, child)
		c.grow(made, child)
	}
	return made
}

// joined returns a plain string in a flow sequence that the parser mistakes for a key and
// its value. A colon ends a key only if it is followed by a blank, a comma or a bracket
// (YAML 1.2.2, section 7.3.3), so host:443 is one string.
func joined(item ast.Node) (*node, bool) {
	made, ok := item.(*ast.MappingNode)
	if !ok || len(made.Values) != 1 || made.Start.Type != token.MappingValueType {
		return nil, false
	}
	pair := made.Values[0]
	key, plain := pair.Key.(*ast.StringNode)
	value := pair.Value.GetToken()
	if !plain || key.Token.Type != token.StringType || value == nil || pair.Start.Position.Line != value.Position.Line || value.Position.Column != pair.Start.Position.Column+1 {
		return nil, false
	}
	switch pair.Value.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode:
		return &node{kind: text, pos: position(key.Token), text: key.Value + ":" + value.Value, size: 1}, true
	}
	return nil, false
}

func (c *converter) mapping(values []*ast.MappingValueNode, pos Position, depth int) *node {
	made := &node{kind: mapping, pos: pos, size: 1, index: map[string]int{}}
	var merged []*node
	for _, value := range values {
		keyPos := position(value.Key.GetToken())
		if value.Key.IsMergeKey() {
			merged = append(merged, c.merged(value.Value, keyPos, depth+1)...)
			continue
		}
		key, ok := c.key(value.Key, keyPos)
		child := c.node(value.Value, depth+1)
		if child.kind == null {
			child = &node{kind: null, pos: keyPos, size: 1}
		}
		c.grow(made, child)
		if !ok {
			continue
		}
		if first := made.pair(key); first != nil {
			c.doc.fail(keyPos, ErrInvalid, fmt.Sprintf("duplicate key %q; it is already on line %d, so remove one of them", key, first.keyPos.Line))
			continue
		}
		made.add(pair{key, keyPos, child})
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
func (c *converter) merged(value ast.Node, pos Position, depth int) []*node {
	n := c.node(value, depth)
	all := []*node{n}
	if n.kind == list {
		all = n.items
	}
	for _, one := range all {
		if one.kind != mapping && one.kind != broken {
			c.doc.fail(pos, ErrInvalid, "a merge key (<<) takes a mapping, or a list of mappings")
			return nil
		}
	}
	return all
}

// key returns the text of a key.
func (c *converter) key(key ast.MapKeyNode, pos Position) (string, bool) {
	plain, ok := key.(*ast.StringNode)
	if !ok {
		c.doc.fail(pos, ErrInvalid, "a key must be a string; put it in quotes")
		return "", false
	}
	return plain.Value, true
}

// grow adds the size and height of child to parent, and reports once if a limit is
// exceeded: aliases can make large and deep trees from small files.
func (c *converter) grow(parent, child *node) {
	within := parent.inBounds() && child.inBounds()
	parent.size = min(parent.size+child.size, maxNodes+1)
	parent.height = min(max(parent.height, child.height+1), maxDepth+1)
	if within && !parent.inBounds() {
		c.doc.fail(parent.pos, ErrInvalid, fmt.Sprintf("with its aliases written out the file has more than %d values or %d levels; use fewer aliases", maxNodes, maxDepth))
	}
}

func (n *node) inBounds() bool { return n.size <= maxNodes && n.height <= maxDepth }
