// Goroutines as such: yielding, spawning, joining, trees of them.
package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

func yield(tasks int) func(int) float64 {
	return func(size int) float64 {
		start := time.Now()
		var wg sync.WaitGroup
		wg.Add(tasks)
		for t := 0; t < tasks; t++ {
			go func() {
				for i := 0; i < size/tasks; i++ {
					runtime.Gosched()
				}
				wg.Done()
			}()
		}
		wg.Wait()
		return per(start, size)
	}
}

func spawnJoin(size int) float64 {
	start := time.Now()
	done := make(chan struct{})
	for i := 0; i < size; i++ {
		go func() { done <- struct{}{} }()
		<-done
	}
	return per(start, size)
}

func fanout(size int) float64 {
	var ran int64
	start := time.Now()
	var wg sync.WaitGroup
	wg.Add(size)
	for i := 0; i < size; i++ {
		go func() {
			atomic.AddInt64(&ran, 1)
			wg.Done()
		}()
	}
	wg.Wait()
	expect(ran == int64(size), "not every task ran")
	return per(start, size)
}

// The least a spawned goroutine can do: say that it ran.
func burst(size int) float64 {
	var wg sync.WaitGroup
	wg.Add(size)
	start := time.Now()
	for i := 0; i < size; i++ {
		go wg.Done()
	}
	wg.Wait()
	return per(start, size)
}

func skynetInto(c chan int64, number, leaves int64) {
	if leaves == 1 {
		c <- number
		return
	}
	rc := make(chan int64, 10)
	for i := int64(0); i < 10; i++ {
		go skynetInto(rc, number+i*leaves/10, leaves/10)
	}
	var sum int64
	for i := 0; i < 10; i++ {
		sum += <-rc
	}
	c <- sum
}

func skynet(size int) float64 {
	start := time.Now()
	c := make(chan int64, 1)
	go skynetInto(c, 0, int64(size))
	leaves := int64(size)
	expect(<-c == leaves*(leaves-1)/2, "the tree's result")
	return float64(time.Since(start).Nanoseconds()) / 1e6
}

func fibOf(n int) int {
	if n < 2 {
		return n
	}
	c := make(chan int, 1)
	go func() { c <- fibOf(n - 1) }()
	right := fibOf(n - 2)
	return <-c + right
}

// Per goroutine; fib(n) starts fib(n + 1) - 1 of them.
func fib(n int) float64 {
	result, next := 0, 1
	for i := 0; i < n; i++ {
		result, next = next, result+next
	}
	start := time.Now()
	expect(fibOf(n) == result, "the tree's result")
	return per(start, next-1)
}

func taskBenchmarks() []benchmark {
	return []benchmark{
		{"yield", "ns", 3000000, one(yield(2))},
		{"yield_100", "ns", 3000000, one(yield(100))},
		{"spawn_join", "ns", 500000, one(spawnJoin)},
		{"fanout_1m", "ns/task", 1000000, one(fanout)},
		{"skynet_1m", "ms", 1000000, one(skynet)},
		{"fib", "ns/call", 27, one(fib)},
		{"spawn_burst_100k", "ns/task", 100000, one(burst)},
	}
}
