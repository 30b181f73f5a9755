package pglocal_test

import (
	"encoding/binary"
	"hash/crc32"
)

// xz wraps data in the .xz format without compressing it, so that the tests
// need no xz program (The .xz File Format 1.2.1; LZMA2 chunks of kind
// "uncompressed").
func xz(data []byte) []byte {
	sum := func(b []byte) []byte { return binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(b)) }
	pad := func(b []byte) []byte {
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
		return b
	}
	flags := []byte{0, 1} // check: CRC32

	out := append([]byte{0xfd, '7', 'z', 'X', 'Z', 0}, flags...)
	out = append(out, sum(flags)...)

	// Block header: 3 * 4 bytes, one filter, no sizes; LZMA2 (0x21) with one
	// property byte, a dictionary of 64 KiB (8).
	header := pad([]byte{2, 0, 0x21, 1, 8})
	header = append(header, sum(header)...)
	block := len(out)
	out = append(out, header...)
	for first, rest := true, data; len(rest) > 0; first = false {
		chunk := rest[:min(len(rest), 1<<16)]
		rest = rest[len(chunk):]
		control := byte(2)
		if first {
			control = 1 // resets the dictionary
		}
		out = append(out, control)
		out = binary.BigEndian.AppendUint16(out, uint16(len(chunk)-1))
		out = append(out, chunk...)
	}
	out = append(out, 0)
	unpadded := len(out) - block + 4 // the check counts, the padding does not
	for (len(out)-block)%4 != 0 {
		out = append(out, 0)
	}
	out = append(out, sum(data)...)

	index := []byte{0, 1}
	index = binary.AppendUvarint(index, uint64(unpadded))
	index = binary.AppendUvarint(index, uint64(len(data)))
	index = pad(index)
	index = append(index, sum(index)...)
	out = append(out, index...)

	footer := binary.LittleEndian.AppendUint32(nil, uint32(len(index)/4-1))
	footer = append(footer, flags...)
	out = append(out, sum(footer)...)
	out = append(out, footer...)
	return append(out, 'Y', 'Z')
}
