// Meeting points: channels, mutexes, select.
package main

import (
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

func pingpong(size int) float64 {
	ping, pong := make(chan int), make(chan int)
	go func() {
		for v := range ping {
			pong <- v
		}
	}()
	start := time.Now()
	for i := 0; i < size; i++ {
		ping <- i
		<-pong
	}
	ns := per(start, size)
	close(ping)
	return ns
}

type processors [16]uint64

func allowedProcessors() (set processors) {
	syscall.RawSyscall(syscall.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(set),
		uintptr(unsafe.Pointer(&set)))
	return
}

// Wires the goroutine to its thread, and that to the n-th processor of those allowed.
func pinThisThread(allowed processors, n int) {
	runtime.LockOSThread()
	for cpu := 0; cpu < len(allowed)*64; cpu++ {
		if allowed[cpu/64]>>(cpu%64)&1 == 0 {
			continue
		}
		if n == 0 {
			var set processors
			set[cpu/64] = 1 << (cpu % 64)
			syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(set),
				uintptr(unsafe.Pointer(&set)))
			return
		}
		n--
	}
}

// Each end has a thread and a processor of its own, as near as Go comes to a worker of its own.
func pingpongCross(size int) float64 {
	ping, pong := make(chan int), make(chan int)
	allowed := allowedProcessors()
	go func() {
		pinThisThread(allowed, 1)
		for v := range ping {
			pong <- v
		}
	}()
	pinThisThread(allowed, 0)
	start := time.Now()
	for i := 0; i < size; i++ {
		ping <- i
		<-pong
	}
	us := per(start, size) / 1e3
	close(ping)
	return us
}

// From `ends` senders to as many receivers; per value.
func queue(ends int) func(int) float64 {
	return func(size int) float64 {
		c := make(chan int, 128)
		var senders, receivers sync.WaitGroup
		start := time.Now()
		for i := 0; i < ends; i++ {
			senders.Add(1)
			receivers.Add(1)
			go func() {
				for k := 0; k < size/ends; k++ {
					c <- k
				}
				senders.Done()
			}()
			go func() {
				for range c {
				}
				receivers.Done()
			}()
		}
		senders.Wait()
		close(c)
		receivers.Wait()
		return per(start, size)
	}
}

func mutex(across bool) func(int) float64 {
	return func(size int) float64 {
		const tasks = 8
		var m sync.Mutex
		var wg sync.WaitGroup
		count := 0
		start := time.Now()
		for i := 0; i < tasks; i++ {
			wg.Add(1)
			go func() {
				for k := 0; k < size/tasks; k++ {
					m.Lock()
					count++
					if across {
						runtime.Gosched()
					}
					m.Unlock()
				}
				wg.Done()
			}()
		}
		wg.Wait()
		expect(count == size/tasks*tasks, "an update is lost")
		return per(start, size)
	}
}

// Over eight channels that are fed in turn.
func select8(size int) float64 {
	var c [8]chan int
	for i := range c {
		c[i] = make(chan int)
	}
	go func() {
		for i := 0; i < size; i++ {
			c[i%8] <- i
		}
	}()
	start := time.Now()
	for i := 0; i < size; i++ {
		select {
		case <-c[0]:
		case <-c[1]:
		case <-c[2]:
		case <-c[3]:
		case <-c[4]:
		case <-c[5]:
		case <-c[6]:
		case <-c[7]:
		}
	}
	return per(start, size)
}

func syncBenchmarks() []benchmark {
	return []benchmark{
		{"chan_pingpong", "ns", 500000, one(pingpong)},
		{"chan_pingpong_cross", "us", 10000, one(pingpongCross)},
		{"chan_spsc_128", "ns/value", 5000000, one(queue(1))},
		{"chan_mpmc_4x4", "ns/value", 3000000, one(queue(4))},
		{"mutex_8", "ns", 10000000, one(mutex(false))},
		{"mutex_yield_8", "ns", 500000, one(mutex(true))},
		{"select_8", "ns", 300000, one(select8)},
	}
}
