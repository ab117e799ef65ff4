package mcpconfig

import (
	"maps"
	"reflect"
	"slices"
)

// Merge lays overlay over base, server by server and field by field. A new name
// adds a server, and nil removes one, which must be there. In a server of both,
// env, secrets, headers and files merge by key, and services in the way servers do; every
// other field of overlay that is set takes the place of base's. Neither argument
// is changed, and the result shares nothing with them.
//
// The result is not validated: a field that overlay sets may not go with one
// that base has.
func Merge(base, overlay map[string]*Server) (map[string]Server, error) {
	f := &findings{}
	merged := make(map[string]Server, len(base)+len(overlay))
	for name, s := range base {
		if s == nil {
			f.server = name
			f.invalid("", "there is nothing to remove it from; give it a command, an image or a url")
			continue
		}
		merged[name] = clone(*s)
	}
	for _, name := range slices.Sorted(maps.Keys(overlay)) {
		under, declared := merged[name]
		switch over := overlay[name]; {
		case over != nil:
			f.server = name
			merged[name] = f.overlay(under, clone(*over))
		case declared:
			delete(merged, name)
		default:
			f.server = name
			f.invalid("", "the eval does not declare it, so it cannot be removed")
		}
	}
	return merged, f.err()
}

func (f *findings) overlay(s, over Server) Server {
	s.Services = f.overlayServices(s.Services, over.Services)
	over.Services = nil
	if over.Cwd != "" || over.WorkingDir != "" { // two names of one field
		s.Cwd, s.WorkingDir = "", ""
	}
	lay(&s, &over)
	return s
}

// overlayServices lays services of one server over others of it. All of it may be
// kept: both are copies.
func (f *findings) overlayServices(services, over map[string]*Service) map[string]*Service {
	for _, name := range slices.Sorted(maps.Keys(over)) {
		under, declared := services[name]
		switch {
		case over[name] != nil && under != nil:
			lay(under, over[name])
		case over[name] != nil:
			if services == nil {
				services = make(map[string]*Service)
			}
			services[name] = over[name]
		case declared:
			delete(services, name)
		default:
			f.invalid("services."+name, "services.%s: the eval does not declare it, so it cannot be removed", name)
		}
	}
	return services
}

// lay puts every field of over that is set in the place of under's; maps merge by
// key.
func lay[T any](under, over *T) {
	to, from := reflect.ValueOf(under).Elem(), reflect.ValueOf(over).Elem()
	for i := range to.NumField() {
		switch {
		case from.Field(i).IsZero():
		case to.Field(i).Kind() == reflect.Map && !to.Field(i).IsNil():
			for key, value := range from.Field(i).Seq2() {
				to.Field(i).SetMapIndex(key, value)
			}
		default:
			to.Field(i).Set(from.Field(i))
		}
	}
}

func clone(s Server) Server {
	eachString(&s, func(_, _, value string) string { return value })
	return s
}
