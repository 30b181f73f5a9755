package featurestore

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

// A segment is one file of the spool: a magic, then frames. A frame is the
// length of its payload and a CRC-32C of length and payload, both 32 bits
// little-endian, then the payload. A frame is whole or it was never written:
// what follows the last whole frame of a file is the torn end of a process
// that was killed.
const (
	segmentMagic = "SPILLSP1"
	frameHeader  = 8
	maxPayload   = 64 << 20 // more is a damaged length, not a record
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errDamaged = errors.New("damaged frame")
	errTorn    = errors.New("torn end of segment")
)

// appendFrame appends r as a frame.
func appendFrame(b []byte, r record) []byte {
	start := len(b)
	b = append(b, make([]byte, frameHeader)...)
	b = r.append(b)
	length := uint32(len(b) - start - frameHeader)
	binary.LittleEndian.PutUint32(b[start:], length)
	binary.LittleEndian.PutUint32(b[start+4:], frameSum(b[start:start+4], b[start+frameHeader:]))
	return b
}

func frameSum(length, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(length, castagnoli), castagnoli, payload)
}

// readFrame returns the payload of the next frame and how many bytes it took.
// io.EOF is the end after a whole frame, errTorn an end within one,
// errDamaged a frame whose sum is wrong but whose length leads to the next.
func readFrame(r *bufio.Reader) (payload []byte, size int64, err error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, 0, io.EOF
		}
		return nil, 0, torn(err)
	}
	length := binary.LittleEndian.Uint32(header[:])
	if length > maxPayload {
		return nil, 0, errTorn
	}
	// Grows with what is there rather than with what the length claims.
	payload, err = io.ReadAll(io.LimitReader(r, int64(length)))
	if err != nil {
		return nil, 0, err
	}
	if len(payload) < int(length) {
		return nil, 0, errTorn
	}
	size = frameHeader + int64(length)
	if frameSum(header[:4], payload) != binary.LittleEndian.Uint32(header[4:]) {
		return nil, size, errDamaged
	}
	return payload, size, nil
}

func torn(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errTorn
	}
	return err
}

// segment is one file and what is known of it.
type segment struct {
	path string
	size int64 // bytes, all of them whole frames as far as we wrote it
	rows int   // frames not yet replayed
	read int64 // offset up to which it was replayed
}

func segmentPath(dir string, number uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%016x.spool", number))
}

// survey reads a segment of an earlier process: how many frames it holds.
// Damage is found again, and counted, when it is replayed.
func survey(path string) (*segment, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	s := &segment{path: path, size: info.Size(), read: int64(len(segmentMagic))}
	err = s.frames(func([]byte) bool { s.rows++; return true }, func(error) { s.rows++ })
	return s, err
}

// frames calls each with the payload of every frame from s.read on until it
// returns false, and damaged for each that cannot be read. It does not move
// s.read.
func (s *segment) frames(each func(payload []byte) bool, damaged func(error)) error {
	_, err := s.framesFrom(s.read, each, damaged)
	return err
}

// framesFrom does so from an offset and returns the one it came to, which is
// s.size at the end of the file.
func (s *segment) framesFrom(offset int64, each func([]byte) bool, damaged func(error)) (int64, error) {
	f, err := os.Open(s.path)
	if err != nil {
		return offset, err
	}
	defer func() { _ = f.Close() }()
	magic := make([]byte, len(segmentMagic))
	if _, err := io.ReadFull(f, magic); err != nil {
		return s.size, nil // killed while it was made
	}
	if string(magic) != segmentMagic {
		damaged(fmt.Errorf("%s is not a spool segment", s.path))
		return s.size, nil
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return offset, err
	}
	r := bufio.NewReaderSize(io.LimitReader(f, s.size-offset), 1<<16)
	for {
		payload, size, err := readFrame(r)
		switch {
		case err == nil:
			if !each(payload) {
				return offset, nil
			}
			offset += size
		case errors.Is(err, io.EOF), errors.Is(err, errTorn):
			return s.size, nil
		case errors.Is(err, errDamaged):
			damaged(fmt.Errorf("%s at %d: %w", s.path, offset, err))
			offset += size
		default:
			return offset, err
		}
	}
}
