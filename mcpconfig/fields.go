package mcpconfig

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// eachString replaces every string of s, except keys of maps and secrets, by the result of f. A field of a
// service is named with its place, such as services.db.env. Lists and maps are copied first, so a copy of a
// Server can be changed without changing the original.
func eachString(s *Server, f func(field, key, value string) string) {
	eachOf(reflect.ValueOf(s).Elem(), "", f)
}

// eachOf is eachString for any struct of the configuration.
func eachOf(v reflect.Value, prefix string, f func(field, key, value string) string) {
	for i := range v.NumField() {
		field := prefix + fieldName(v.Type().Field(i))
		switch value := v.Field(i).Addr().Interface().(type) {
		case *string:
			if *value != "" {
				*value = f(field, "", *value)
			}
		case *[]string:
			*value = slices.Clone(*value)
			for j, item := range *value {
				(*value)[j] = f(field, strconv.Itoa(j), item)
			}
		case *map[string]string:
			*value = maps.Clone(*value)
			for _, key := range slices.Sorted(maps.Keys(*value)) {
				(*value)[key] = f(field, key, (*value)[key])
			}
		case *[]Egress:
			*value = slices.Clone(*value)
			for j, entry := range *value {
				(*value)[j] = Egress{
					Host: f(field, strconv.Itoa(j), entry.Host), Ports: slices.Clone(entry.Ports),
					Address: f(field, strconv.Itoa(j), entry.Address),
				}
			}
		case *map[string]Secret:
			*value = copySecrets(*value)
		case *[]int:
			*value = slices.Clone(*value)
		case *map[string]*Service:
			*value = maps.Clone(*value)
			for _, name := range slices.Sorted(maps.Keys(*value)) {
				(*value)[name] = copyOf((*value)[name], field+"."+name, f)
			}
		case *Limits:
			eachOf(v.Field(i), prefix, f)
		case **Ready:
			*value = copyOf(*value, field, f)
		case **Build:
			*value = copyOf(*value, field, f)
		}
	}
}

// copyOf returns a copy of *s after eachOf. place is the name of its field.
func copyOf[T any](s *T, place string, f func(field, key, value string) string) *T {
	if s == nil {
		return nil
	}
	copied := *s
	eachOf(reflect.ValueOf(&copied).Elem(), place+".", f)
	return &copied
}

// fieldName returns the key of a field in a file.
func fieldName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
