package redact

import (
	"bytes"
	"strconv"
	"strings"
)

// Where fields stand in a header's block; see tar(5).
const (
	tarSizeAt = 124
	tarSumAt  = 148
	tarType   = 156
)

type tarField struct{ from, to int }

// tarTexts are the fields that hold text: the name, what a link leads to, user and
// group, what stands before the name, and what nobody reads.
func tarTexts() []tarField {
	return []tarField{{0, 100}, {157, 257}, {265, 297}, {297, 329}, {345, 500}, {500, tarBlock}}
}

// tarName is the name in a header.
func tarName(block []byte) string {
	name := untilNUL(block[:100])
	if string(block[257:262]) == "ustar" && block[262] == 0 {
		if before := untilNUL(block[345:500]); before != "" {
			name = before + "/" + name
		}
	}
	return name
}

func untilNUL(field []byte) string {
	text, _, _ := bytes.Cut(field, []byte{0})
	return string(text)
}

// isTarName says whether a header is of a name or of attributes of what comes next.
func isTarName(block []byte) bool { return strings.IndexByte("LKxg", block[tarType]) >= 0 }

// hasTarContent says whether a header has content behind it: links, devices,
// directories and pipes have none, whatever size they tell.
func hasTarContent(block []byte) bool { return strings.IndexByte("123456", block[tarType]) < 0 }

// tarSize is the size that a header tells; ok is false for what is no header.
func tarSize(block []byte) (size int64, ok bool) {
	sum, ok := tarNumber(block[tarSumAt : tarSumAt+8])
	unsigned, signed := tarSums(block)
	if !ok || sum != unsigned && sum != signed {
		return 0, false
	}
	size, ok = tarNumber(block[tarSizeAt : tarSizeAt+12])
	return size, ok && size >= 0 && size < 1<<40
}

// tarSums are a header's sums with its own taken for blanks, by both readings.
func tarSums(block []byte) (unsigned, signed int64) {
	for i, c := range block {
		if i >= tarSumAt && i < tarSumAt+8 {
			c = ' '
		}
		unsigned, signed = unsigned+int64(c), signed+int64(int8(c))
	}
	return unsigned, signed
}

// setTarSum has a header's sum say what the header is.
func setTarSum(block []byte) {
	sum, _ := tarSums(block)
	digits := strconv.FormatInt(sum, 8)
	copy(block[tarSumAt:], strings.Repeat("0", 6-len(digits))+digits+"\x00 ")
}

// tarNumber reads octal digits, or a number in base 256 where the first bit is set.
func tarNumber(field []byte) (n int64, ok bool) {
	if field[0]&0x80 != 0 {
		n = int64(field[0] & 0x7f)
		for _, c := range field[1:] {
			if n >= 1<<40 {
				return 0, false
			}
			n = n<<8 | int64(c)
		}
		return n, true
	}
	text := strings.Trim(string(field), " \x00")
	if text == "" {
		return 0, true
	}
	n, err := strconv.ParseInt(text, 8, 64)
	return n, err == nil
}

// paxRecord is one attribute of a file.
type paxRecord struct{ key, value []byte }

// paxRecords reads what stands before a file's header, as "LENGTH KEY=VALUE\n" each.
func paxRecords(text []byte) (all []paxRecord, ok bool) {
	for len(text) > 0 {
		digits, _, found := bytes.Cut(text, []byte(" "))
		length, err := strconv.Atoi(string(digits))
		if !found || err != nil || length <= len(digits)+1 || length > len(text) || text[length-1] != '\n' {
			return nil, false
		}
		key, value, found := bytes.Cut(text[len(digits)+1:length-1], []byte("="))
		if !found {
			return nil, false
		}
		all, text = append(all, paxRecord{key, value}), text[length:]
	}
	return all, true
}

// isNumber says whether the value is read as numbers, as which it must stay.
func (r paxRecord) isNumber() bool {
	switch key := string(r.key); key {
	case "size", "uid", "gid", "mtime", "atime", "ctime":
		return true
	default:
		return strings.HasPrefix(key, "GNU.sparse.") && key != "GNU.sparse.name"
	}
}

func (r paxRecord) size() (int64, bool) {
	size, err := strconv.ParseInt(string(r.value), 10, 64)
	return size, err == nil && string(r.key) == "size" && size >= 0 && size < 1<<40
}
