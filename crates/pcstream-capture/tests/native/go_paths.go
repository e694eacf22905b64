// Pages that become dirty in each way that matters for a Go program's call paths. Each way has a file of its name, of 100 pages.
package main

import (
	"math/rand"
	"os"
	"syscall"
	"time"
)

const pages, pageBytes = 100, 4096

// A write by C code, in programs that have some.
var inC func(fd int)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func create(name string) int {
	fd, err := syscall.Open(name, syscall.O_CREAT|syscall.O_RDWR, 0600)
	check(err)
	return fd
}

func mapped(name string) []byte {
	fd := create(name)
	check(syscall.Ftruncate(fd, pages*pageBytes))
	m, err := syscall.Mmap(fd, 0, pages*pageBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	check(err)
	return m
}

//go:noinline
func storeLog(m []byte, at int, from []byte) { copy(m[at:], from) }

//go:noinline
func storeTable(m []byte, at int, from []byte) { copy(m[at:], from) }

//go:noinline
func storeAny(m []byte, at int, from []byte) { copy(m[at:], from) }

//go:noinline
func storeOne(m []byte, at int) { m[at] = 1 }

//go:noinline
func keep(fd int) {
	_, err := syscall.Write(fd, make([]byte, pageBytes))
	check(err)
	time.Sleep(100 * time.Microsecond)
}

//go:noinline
func inGoroutine(fd int, done chan bool) {
	for n := 0; n < pages; n++ {
		keep(fd)
	}
	done <- true
}

//go:noinline
func deep(fd, levels int) int {
	var room [1000]byte
	room[levels%len(room)] = 1
	if levels > 0 {
		return deep(fd, levels-1) + int(room[7])
	}
	keep(fd)
	return int(room[7])
}

// The path leads through a signal.
//
//go:noinline
func afterFault(fd int, nowhere *[2]int) {
	defer func() {
		_ = recover()
		keep(fd)
	}()
	nowhere[1] = 1
}

func main() {
	stores := []struct {
		store func([]byte, int, []byte)
		m     []byte
	}{{storeLog, mapped("log")}, {storeTable, mapped("table")}}
	any, one, from := mapped("any"), mapped("one"), make([]byte, pageBytes)
	for at := 0; at < pages*pageBytes; at += pageBytes {
		for _, to := range stores {
			to.store(to.m, at, from[:64])
		}
		storeAny(any, at, from[:1+rand.Intn(3000)])
		storeOne(one, at)
		time.Sleep(100 * time.Microsecond)
	}
	done := make(chan bool)
	go inGoroutine(create("goroutine"), done)
	<-done
	down, recovered := create("deep"), create("recovered")
	for n := 0; n < pages; n++ {
		deep(down, n%7*10)
		afterFault(recovered, nil)
	}
	if inC != nil {
		c := create("c")
		for n := 0; n < pages; n++ {
			inC(c)
			time.Sleep(100 * time.Microsecond)
		}
	}
	os.Exit(0)
}
