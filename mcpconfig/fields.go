package mcpconfig

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// eachString hands every string of s, but for the keys of maps, to f and puts
// what f returns in its place. Lists and maps are copied first, so a copy of a
// Server can be changed without changing the original.
func eachString(s *Server, f func(field, key, value string) string) {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		field := fieldName(v.Type().Field(i))
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
		}
	}
}

// fieldName is the key of a field in a file.
func fieldName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
