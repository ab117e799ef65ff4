package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
)

// decoder sets Go values from nodes and reports mismatches.
type decoder struct {
	doc    *Document
	around []mapped // the structs that the value is in, the innermost last
}

// mapped is a mapping that sets a struct.
type mapped struct {
	at    Path
	known shape
}

// value sets v from n. lim are the limits of the field v.
func (d decoder) value(n *node, v reflect.Value, path Path, lim Limits) {
	if n.kind == broken {
		d.doc.bad[path.String()], d.doc.unread[path.String()] = true, true
		d.doc.broken++
		return
	}
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes(n.json())
		return
	}
	if short, ok := v.Addr().Interface().(Shorthand); ok {
		d.shorthand(n, short, v, path)
		return
	}
	if custom, ok := v.Addr().Interface().(json.Unmarshaler); ok {
		d.custom(n, custom, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path, lim)
	case reflect.Interface:
		d.free(n, v, path)
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Map:
		d.mapOf(n, v, path)
	case reflect.Slice:
		d.sliceOf(n, v, path, lim)
	default:
		d.scalar(n, v, path, lim)
	}
}

// custom sets a value that implements json.Unmarshaler.
func (d decoder) custom(n *node, v json.Unmarshaler, path Path) {
	err := v.UnmarshalJSON(n.json())
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mistyped):
		d.doc.misread(path, "%s cannot be %s", path, d.doc.describe(n))
	case err != nil:
		d.doc.misread(path, "%s: %v", path, err)
	}
}

// shorthand sets a struct from a mapping or from a string.
func (d decoder) shorthand(n *node, short Shorthand, v reflect.Value, path Path) {
	switch n.kind {
	case text:
		if err := short.SetShort(n.text); err != nil {
			d.doc.misread(path, "%s: %v", path, err)
		}
	case mapping:
		d.structure(n, v, path)
	default:
		d.mistyped(n, path, "a string or a mapping")
	}
}

// free sets an interface value as encoding/json would, with numbers as json.Number.
func (d decoder) free(n *node, v reflect.Value, path Path) {
	if d.hasOdd(n, path) {
		return
	}
	var written bytes.Buffer
	n.appendJSON(&written, false)
	in := json.NewDecoder(&written)
	in.UseNumber()
	_ = in.Decode(v.Addr().Interface()) // any value can be decoded
}

func (d decoder) mistyped(n *node, path Path, want string) {
	what := path.String()
	if what == "" {
		what = "the file"
	}
	if n.kind == null {
		d.doc.misread(path, "%s has no value; give it %s or remove the key", what, want)
		return
	}
	d.doc.misread(path, "%s must be %s, not %s", what, want, d.doc.describe(n))
}

func (d decoder) structure(n *node, v reflect.Value, path Path) {
	if n.kind != mapping {
		d.mistyped(n, path, "a mapping")
		return
	}
	known := shapeOf(v.Type())
	d.around = append(slices.Clip(d.around), mapped{path, known})
	ignored := map[string]bool{}
	for _, p := range n.pairs {
		at := path.With(p.key)
		field, ok := known.fields[p.key]
		switch {
		case !ok && known.lenient && d.ignores(p, at, known):
			ignored[p.key] = true
			continue
		case !ok:
			d.unknown(p, at, known)
			continue
		case known.lenient && p.value.kind == null && !field.limits.Required, field.limits.Zero && p.value.isZero():
			ignored[p.key] = true // treated as absent
			continue
		}
		d.value(p.value, v.FieldByIndex(field.index), at, field.limits)
	}
	for _, name := range known.names {
		if known.fields[name].limits.Required && n.pair(name) == nil {
			d.missing(path.With(name))
		}
	}
	if len(ignored) > 0 {
		n.drop(ignored)
	}
}

// ignores reports whether an unknown key of a lenient struct is ignored with a warning,
// because it is not a misspelled key.
func (d decoder) ignores(p pair, at Path, known shape) bool {
	if d.doc.ignores == "" || isNearMiss(p.key, known.names) {
		return false
	}
	d.doc.warn(p.keyPos, fmt.Sprintf("unknown key %s is ignored: %s", at, d.doc.ignores))
	return true
}

// unknown reports an unknown key. If another key was probably meant, that key is not also reported
// as missing.
func (d decoder) unknown(p pair, at Path, known shape) {
	if len(d.doc.problems) >= maxProblems { // not worth searching
		d.doc.dropped++
		return
	}
	if homes := d.homes(p.key); len(homes) > 0 && !isNearMiss(p.key, known.names) {
		var names []string
		for _, home := range homes {
			where := "at the top of the file"
			if len(home) > 0 {
				where = "in " + home.String()
			}
			names = append(names, where)
			d.doc.bad[home.With(p.key).String()] = true
		}
		d.doc.report(p.keyPos, at, fmt.Sprintf("unknown key %q here; it belongs %s", p.key, orList(names)))
		return
	}
	d.doc.report(p.keyPos, at, fmt.Sprintf("unknown key %q; %s", p.key, Suggest(p.key, known.names)))
	if meant := Nearest(p.key, known.names); meant != "" && !d.doc.Has(at[:len(at)-1].With(meant)...) {
		d.doc.bad[at[:len(at)-1].With(meant).String()] = true
	}
}

// homes returns the paths of the mappings that allow a key which is unknown at the current one:
// those directly below it or, if there are none, the innermost one around it.
func (d decoder) homes(key string) (all []Path) {
	here := d.around[len(d.around)-1]
	for _, name := range here.known.names {
		if inner := here.known.fields[name].mapping; inner != nil && slices.Contains(shapeOf(inner).names, key) {
			all = append(all, here.at.With(name))
		}
	}
	for _, outer := range slices.Backward(d.around[:len(d.around)-1]) {
		if len(all) == 0 && slices.Contains(outer.known.names, key) {
			all = append(all, outer.at)
		}
	}
	return all
}

func (d decoder) missing(at Path) {
	if d.doc.Reported(at[:len(at)-1]...) { // a problem with the mapping was reported
		return
	}
	add := "it"
	if len(at) > 1 {
		add = at.String()
	}
	pos := d.doc.place(at[:len(at)-1])
	d.doc.report(pos, at, fmt.Sprintf("missing key %q; add %s", at[len(at)-1], add))
}

// mapOf sets a map. Only in a map of pointers are empty values allowed, as nil.
func (d decoder) mapOf(n *node, v reflect.Value, path Path) {
	if n.kind != mapping {
		d.mistyped(n, path, "a mapping")
		return
	}
	made := reflect.MakeMapWithSize(v.Type(), len(n.pairs))
	for _, p := range n.pairs {
		if p.value.kind == broken {
			continue
		}
		element := reflect.New(v.Type().Elem()).Elem()
		if p.value.kind != null || element.Kind() != reflect.Pointer {
			d.value(p.value, element, path.With(p.key), Limits{})
		}
		made.SetMapIndex(reflect.ValueOf(p.key).Convert(v.Type().Key()), element)
	}
	v.Set(made)
}

func (d decoder) sliceOf(n *node, v reflect.Value, path Path, lim Limits) {
	if n.kind != list {
		want := "a list"
		if n.kind == text {
			want += ", as in [a, b]"
		}
		d.mistyped(n, path, want)
		return
	}
	if lim.Required && len(n.items) == 0 {
		d.doc.misread(path, "%s must not be empty", path)
	}
	made := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
	for i, item := range n.items {
		d.value(item, made.Index(i), path.With(i), lim.ofElements())
	}
	v.Set(made)
}

func (d decoder) scalar(n *node, v reflect.Value, path Path, lim Limits) {
	switch v.Kind() {
	case reflect.String:
		d.str(n, v, path, lim)
	case reflect.Bool:
		if n.kind != boolean {
			d.mistyped(n, path, "true or false")
			return
		}
		v.SetBool(n.text == "true")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if d.isOdd(n, path) {
			return
		}
		i, err := strconv.ParseInt(n.text, 10, v.Type().Bits())
		if n.kind != integer || err != nil {
			d.mistyped(n, path, "a whole number")
			return
		}
		v.SetInt(i)
		d.bounds(n, float64(i), path, lim)
	case reflect.Float32, reflect.Float64:
		if d.isOdd(n, path) {
			return
		}
		f, err := strconv.ParseFloat(n.text, v.Type().Bits())
		if (n.kind != integer && n.kind != float) || err != nil {
			d.mistyped(n, path, "a number")
			return
		}
		v.SetFloat(f)
		d.bounds(n, f, path, lim)
	default:
		d.doc.misread(path, "%s cannot be set from a file", path)
	}
}

func (d decoder) str(n *node, v reflect.Value, path Path, lim Limits) {
	if v.Type() == reflect.TypeFor[json.Number]() && (n.kind == integer || n.kind == float) {
		v.SetString(n.text)
		return
	}
	text, ok := n.scalar()
	if !ok {
		d.mistyped(n, path, "a string")
		return
	}
	v.SetString(text)
	if message := lim.checkString(path, text); message != "" {
		d.doc.report(n.pos, path, message)
	}
}

// isZero reports whether n is an explicit zero value: null, false, 0, an empty string, list
// or mapping, or a list of such values.
func (n *node) isZero() bool {
	switch n.kind {
	case boolean:
		return n.text == "false"
	case integer, float:
		f, err := strconv.ParseFloat(n.text, 64)
		return err == nil && f == 0
	case list:
		return !slices.ContainsFunc(n.items, func(item *node) bool { return !item.isZero() })
	case text, mapping:
		return n.text == "" && len(n.pairs) == 0
	}
	return n.kind == null
}

// scalar returns the string that n represents: any non-null scalar, as written.
func (n *node) scalar() (string, bool) {
	switch n.kind {
	case text:
		return n.text, true
	case boolean, integer, float:
		n.asText = true
		return n.written, true
	}
	return "", false
}

// isOdd reports a problem if n is a number that JSON cannot represent.
func (d decoder) isOdd(n *node, path Path) bool {
	if n.odd {
		d.doc.misread(path, "the number %s must be written in plain decimal digits; if it is a string, put it in quotes", n.text)
	}
	return n.odd
}

// hasOdd is like isOdd for all values in n.
func (d decoder) hasOdd(n *node, path Path) bool {
	odd := d.isOdd(n, path)
	for i, item := range n.items {
		odd = d.hasOdd(item, path.With(i)) || odd
	}
	for _, p := range n.pairs {
		odd = d.hasOdd(p.value, path.With(p.key)) || odd
	}
	return odd
}

func (d decoder) bounds(n *node, number float64, path Path, lim Limits) {
	if message := lim.checkNumber(number); message != "" {
		d.doc.misread(path, "%s must be %s, not %s", path, message, n.text)
	}
}
