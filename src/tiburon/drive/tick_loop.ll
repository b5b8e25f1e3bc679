; The tick loop. Names in braces are indices and sizes, which tick_code.py fills in; where it says
; loads, all entries of the argument table are loaded.

; own loops: this module calls no library function by name
define internal void @copy(ptr %dst, ptr %src, i64 %bytes) "no-builtins" {
entry:
  %count = udiv i64 %bytes, 8
  br label %check
check:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %from = getelementptr i64, ptr %src, i64 %i
  %to = getelementptr i64, ptr %dst, i64 %i
  %value = load i64, ptr %from
  store i64 %value, ptr %to
  %next = add i64 %i, 1
  br label %check
done:
  ret void
}

define internal void @zero(ptr %dst, i64 %count) "no-builtins" {
entry:
  br label %check
check:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %to = getelementptr i64, ptr %dst, i64 %i
  store i64 0, ptr %to
  %next = add i64 %i, 1
  br label %check
done:
  ret void
}

; reads a word from Python; everything written before it is visible
define i64 @peek(ptr %word) {
  %value = load atomic i64, ptr %word acquire, align 8
  ret i64 %value
}

; posts values from Python: the sequence count is odd while they change
define void @post(ptr %seq, ptr %src, ptr %dst, i64 %bytes) {
  %before = load atomic i64, ptr %seq monotonic, align 8
  %odd = add i64 %before, 1
  store atomic i64 %odd, ptr %seq monotonic, align 8
  fence release
  call void @copy(ptr %dst, ptr %src, i64 %bytes)
  %even = add i64 %before, 2
  store atomic i64 %even, ptr %seq release, align 8
  ret void
}

; copies new consistent values; values that change meanwhile wait for the next tick
define internal i1 @take(ptr %seq, ptr %seen, ptr %src, ptr %stage, ptr %dst, i64 %bytes) {
entry:
  %now = load atomic i64, ptr %seq acquire, align 8
  %known = load i64, ptr %seen
  %same = icmp eq i64 %now, %known
  %bit = and i64 %now, 1
  %odd = icmp ne i64 %bit, 0
  %skip = or i1 %same, %odd
  br i1 %skip, label %no, label %copy
copy:
  call void @copy(ptr %stage, ptr %src, i64 %bytes)
  fence acquire
  %after = load atomic i64, ptr %seq monotonic, align 8
  %whole = icmp eq i64 %now, %after
  br i1 %whole, label %yes, label %no
yes:
  call void @copy(ptr %dst, ptr %stage, i64 %bytes)
  store i64 %now, ptr %seen
  ret i1 true
no:
  ret i1 false
}

define internal i64 @clock(ptr %table) {
  %spec = alloca [2 x i64], align 8
  %read_at = getelementptr i64, ptr %table, i64 {READ_CLOCK}
  %read = load ptr, ptr %read_at
  %id_at = getelementptr i64, ptr %table, i64 {CLOCK_ID}
  %id64 = load i64, ptr %id_at
  %id = trunc i64 %id64 to i32
  %ignored = call i32 %read(i32 %id, ptr %spec)
  %seconds = load i64, ptr %spec
  %rest_at = getelementptr i64, ptr %spec, i64 1
  %rest = load i64, ptr %rest_at
  %whole = mul i64 %seconds, 1000000000
  %total = add i64 %whole, %rest
  ret i64 %total
}

define internal void @rest(ptr %table, i64 %length) {
  %spec = alloca [2 x i64], align 8
  %seconds = udiv i64 %length, 1000000000
  %left = urem i64 %length, 1000000000
  store i64 %seconds, ptr %spec
  %left_at = getelementptr i64, ptr %spec, i64 1
  store i64 %left, ptr %left_at
  %sleep_at = getelementptr i64, ptr %table, i64 {SLEEP}
  %sleep = load ptr, ptr %sleep_at
  %ignored = call i32 %sleep(ptr %spec, ptr null)
  ret void
}


; writes a row: state, commands and lateness of the tick
define internal void @row(ptr %table, i64 %late) {
  %words = load ptr, ptr %table
  {loads}
  %head_at = getelementptr i64, ptr %words, i64 {HEAD}
  %head = load i64, ptr %head_at
  %last = sub i64 %RING_ROWS, 1
  %place = and i64 %head, %last
  %shift = mul i64 %place, %RING_STRIDE
  %row = getelementptr double, ptr %RING, i64 %shift
  %done_at = getelementptr double, ptr %STATE, i64 %STATE_SIZE
  %done = load double, ptr %done_at
  store double %done, ptr %row
  %late_at = getelementptr double, ptr %row, i64 1
  %late_number = sitofp i64 %late to double
  store double %late_number, ptr %late_at
  %state_at = getelementptr double, ptr %row, i64 2
  %state_bytes = mul i64 %STATE_SIZE, 8
  call void @copy(ptr %state_at, ptr %STATE, i64 %state_bytes)
  %commands_at = getelementptr double, ptr %state_at, i64 %STATE_SIZE
  %commands_bytes = mul i64 %COMMANDS_SIZE, 8
  call void @copy(ptr %commands_at, ptr %COMMANDS, i64 %commands_bytes)
  %next = add i64 %head, 1
  store atomic i64 %next, ptr %head_at release, align 8
  ret void
}

; one tick: steps advance a copy of the state; a non-finite result sets the status
define internal void @tick(ptr %table, i64 %late) {
entry:
  %words = load ptr, ptr %table
  {loads}
  ; the state is followed by its number of steps
  %count_at = getelementptr double, ptr %STATE, i64 %STATE_SIZE
  %count = load double, ptr %count_at
  br label %check
check:
  %k = phi i64 [ 0, %entry ], [ %k_next, %set ]
  %more = icmp slt i64 %k, %STEPS
  br i1 %more, label %set, label %run
set:
  %line = mul i64 %k, %CLOCK_SIZE
  %place = add i64 %line, {DONE}
  %done_at = getelementptr double, ptr %CLOCKS, i64 %place
  %before = sitofp i64 %k to double
  %done = fadd double %count, %before
  store double %done, ptr %done_at
  %k_next = add i64 %k, 1
  br label %check
run:
  %work_bytes = mul i64 %WORK_SIZE, 8
  call void @copy(ptr %WORK, ptr %BEGIN, i64 %work_bytes)
  %reached = call i64 %RUN(ptr %JOB, i64 0, i64 %STEPS)
  %good = icmp eq i64 %reached, %STEPS
  br i1 %good, label %finite, label %diverged
diverged:
  %status_at = getelementptr i64, ptr %words, i64 {STATUS}
  store atomic i64 1, ptr %status_at release, align 8
  ret void
finite:
  %bytes = mul i64 %STATE_SIZE, 8
  call void @copy(ptr %STATE, ptr %FOUND, i64 %bytes)
  %steps = sitofp i64 %STEPS to double
  %total = fadd double %count, %steps
  store double %total, ptr %count_at
  call void @row(ptr %table, i64 %late)
  ret void
}


; copies posted values: a state, then commands and parameters
define internal i1 @take_posts(ptr %table) {
entry:
  %words = load ptr, ptr %table
  {loads}
  %size = add i64 %STATE_SIZE, 1
  %bytes = mul i64 %size, 8
  %state_seq = getelementptr i64, ptr %words, i64 {STATE_SEQ}
  %state_seen = getelementptr i64, ptr %words, i64 {STATE_SEEN}
  %moved = call i1 @take(
    ptr %state_seq, ptr %state_seen, ptr %POSTED_STATE, ptr %STAGE, ptr %STATE, i64 %bytes)
  br i1 %moved, label %jump, label %numbers
jump:
  %status_at = getelementptr i64, ptr %words, i64 {STATUS}
  store atomic i64 0, ptr %status_at release, align 8
  br label %numbers
numbers:
  %number_bytes = mul i64 %NUMBERS_SIZE, 8
  %seq = getelementptr i64, ptr %words, i64 {POST_SEQ}
  %seen = getelementptr i64, ptr %words, i64 {POST_SEEN}
  %ignored = call i1 @take(
    ptr %seq, ptr %seen, ptr %POSTED, ptr %STAGE, ptr %NUMBERS, i64 %number_bytes)
  ret i1 %moved
}


; updates the statistics of lateness: bins, maximum, deadline misses
define internal void @count(ptr %table, i64 %late) {
entry:
  %words = load ptr, ptr %table
  {loads}
  %scaled = sdiv i64 %late, {LATE_UNIT}
  %over = icmp sgt i64 %scaled, {LAST_BIN}
  %bin = select i1 %over, i64 {LAST_BIN}, i64 %scaled
  %bin_at = getelementptr i64, ptr %BINS, i64 %bin
  %old = load i64, ptr %bin_at
  %new = add i64 %old, 1
  store i64 %new, ptr %bin_at
  %ticks_at = getelementptr i64, ptr %words, i64 {TICKS}
  %ticks = load i64, ptr %ticks_at
  %more = add i64 %ticks, 1
  store i64 %more, ptr %ticks_at
  %most_at = getelementptr i64, ptr %words, i64 {MAX_LATENESS}
  %most = load i64, ptr %most_at
  %later = icmp sgt i64 %late, %most
  %latest = select i1 %later, i64 %late, i64 %most
  store i64 %latest, ptr %most_at
  %limit_at = getelementptr i64, ptr %words, i64 {LIMIT}
  %limit = load i64, ptr %limit_at
  %before_at = getelementptr i64, ptr %words, i64 {WAS_LATE}
  %before = load i64, ptr %before_at
  %too_late = icmp sgt i64 %late, %limit
  %too_late_word = zext i1 %too_late to i64
  store i64 %too_late_word, ptr %before_at
  br i1 %too_late, label %missed, label %done
missed:
  ; one delay makes several ticks late: delays begin after a tick that was on time
  %gaps_at = getelementptr i64, ptr %words, i64 {DELAYS}
  %gaps = load i64, ptr %gaps_at
  %gaps_more = add i64 %gaps, 1
  %gaps_now = sub i64 %gaps_more, %before
  store i64 %gaps_now, ptr %gaps_at
  %misses_at = getelementptr i64, ptr %words, i64 {MISSES}
  %misses = load i64, ptr %misses_at
  %slot = and i64 %misses, {LAST_LOG}
  %pair = mul i64 %slot, 2
  %tick_at = getelementptr i64, ptr %LOG, i64 %pair
  store i64 %ticks, ptr %tick_at
  %size_at = getelementptr i64, ptr %tick_at, i64 1
  store i64 %late, ptr %size_at
  ; spinning uses up the time slice on a busy processor: halve the margin
  %margin_at = getelementptr i64, ptr %words, i64 {MARGIN}
  %margin = load atomic i64, ptr %margin_at monotonic, align 8
  %never_sleeps = icmp sge i64 %margin, {NEVER_SLEEP}
  %half = ashr i64 %margin, 1
  %margin_now = select i1 %never_sleeps, i64 %margin, i64 %half
  store atomic i64 %margin_now, ptr %margin_at monotonic, align 8
  %counted = add i64 %misses, 1
  store atomic i64 %counted, ptr %misses_at release, align 8
  br label %done
done:
  ret void
}

; adds the execution time of a tick
define internal void @work(ptr %words, i64 %length) {
  %sum_at = getelementptr i64, ptr %words, i64 {BUSY}
  %sum = load i64, ptr %sum_at
  %more = add i64 %sum, %length
  store i64 %more, ptr %sum_at
  %most_at = getelementptr i64, ptr %words, i64 {MAX_BUSY}
  %most = load i64, ptr %most_at
  %longer = icmp sgt i64 %length, %most
  %longest = select i1 %longer, i64 %length, i64 %most
  store i64 %longest, ptr %most_at
  ret void
}

; clears the statistics on request
define internal void @clear(ptr %table) {
entry:
  %words = load ptr, ptr %table
  {loads}
  %asked_at = getelementptr i64, ptr %words, i64 {CLEAR}
  %asked = load atomic i64, ptr %asked_at acquire, align 8
  %seen_at = getelementptr i64, ptr %words, i64 {CLEAR_SEEN}
  %seen = load i64, ptr %seen_at
  %same = icmp eq i64 %asked, %seen
  br i1 %same, label %done, label %empty
empty:
  %first = getelementptr i64, ptr %words, i64 {TICKS}
  call void @zero(ptr %first, i64 {COUNTED})
  call void @zero(ptr %BINS, i64 {BIN_COUNT})
  store atomic i64 %asked, ptr %seen_at release, align 8
  br label %done
done:
  ret void
}


{DECLARE_RELAX}

; adapts the margin so that 1 of 1000 oversleeps exceeds it; oversleeps beyond any margin are
; ignored
define internal void @adapt(ptr %table, i64 %target) {
entry:
  %words = load ptr, ptr %table
  %woke = call i64 @clock(ptr %table)
  %over = sub i64 %woke, %target
  %most_at = getelementptr i64, ptr %words, i64 {MAX_MARGIN}
  %most = load atomic i64, ptr %most_at monotonic, align 8
  %beyond = icmp sgt i64 %over, %most
  br i1 %beyond, label %done, label %adapt
adapt:
  %margin_at = getelementptr i64, ptr %words, i64 {MARGIN}
  %margin = load atomic i64, ptr %margin_at monotonic, align 8
  %short = icmp sgt i64 %over, %margin
  %step = select i1 %short, i64 {MARGIN_UP}, i64 -{MARGIN_DOWN}
  %sum = add i64 %margin, %step
  %negative = icmp slt i64 %sum, 0
  %least = select i1 %negative, i64 0, i64 %sum
  %large = icmp sgt i64 %least, %most
  %new = select i1 %large, i64 %most, i64 %least
  store atomic i64 %new, ptr %margin_at monotonic, align 8
  br label %done
done:
  ret void
}

; waits for a part of the remaining time: sleeps until the margin, then spins
define internal void @wait(ptr %table, i64 %time, i64 %left) {
entry:
  %words = load ptr, ptr %table
  %margin_at = getelementptr i64, ptr %words, i64 {MARGIN}
  %learned = load atomic i64, ptr %margin_at monotonic, align 8
  ; the period may have become shorter since
  %most_at = getelementptr i64, ptr %words, i64 {MAX_MARGIN}
  %most = load atomic i64, ptr %most_at monotonic, align 8
  %over = icmp sgt i64 %learned, %most
  %margin = select i1 %over, i64 %most, i64 %learned
  %free = sub i64 %left, %margin
  %asleep = icmp sgt i64 %free, 0
  br i1 %asleep, label %sleep, label %spin
spin:
  {RELAX}
  ret void
sleep:
  ; long sleeps are divided, so that pause and stop take effect soon
  %long = icmp sgt i64 %free, {MAX_SLEEP}
  %part = select i1 %long, i64 {MAX_SLEEP}, i64 %free
  call void @rest(ptr %table, i64 %part)
  %target = add i64 %time, %part
  call void @adapt(ptr %table, i64 %target)
  ret void
}


define i32 @run(ptr %table) {
entry:
  %words = load ptr, ptr %table
  %stop_at = getelementptr i64, ptr %words, i64 {STOP}
  %paused_at = getelementptr i64, ptr %words, i64 {PAUSED}
  %status_at = getelementptr i64, ptr %words, i64 {STATUS}
  %wanted_at = getelementptr i64, ptr %words, i64 {STEPS_WANTED}
  %stepped_at = getelementptr i64, ptr %words, i64 {STEPS_DONE}
  %period_at = getelementptr i64, ptr %words, i64 {PERIOD}
  %lost_at = getelementptr i64, ptr %words, i64 {LOST}
  %missed_at = getelementptr i64, ptr %words, i64 {SKIPPED}
  %begin = call i64 @clock(ptr %table)
  br label %again
again:
  %due = phi i64 [ %begin, %entry ], [ %due, %wait ], [ %next, %worked ],
    [ %fresh, %idle ], [ %stepped_time, %single ]
  call void @clear(ptr %table)
  %stop = load atomic i64, ptr %stop_at acquire, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %end, label %look
end:
  ret i32 0
look:
  %pause = load atomic i64, ptr %paused_at acquire, align 8
  %status = load i64, ptr %status_at
  %either = or i64 %pause, %status
  %resting = icmp ne i64 %either, 0
  br i1 %resting, label %still, label %timed
timed:
  %time = call i64 @clock(ptr %table)
  %left = sub i64 %due, %time
  %early = icmp sgt i64 %left, 0
  br i1 %early, label %wait, label %go
wait:
  call void @wait(ptr %table, i64 %time, i64 %left)
  br label %again
go:
  %late = sub i64 %time, %due
  call void @count(ptr %table, i64 %late)
  %behind = icmp sgt i64 %late, {CATCH_UP}
  %lost_now = select i1 %behind, i64 %late, i64 0
  %lost = load i64, ptr %lost_at
  %lost_sum = add i64 %lost, %lost_now
  store i64 %lost_sum, ptr %lost_at
  ; count the ticks that are skipped
  %pace = load atomic i64, ptr %period_at monotonic, align 8
  %missed_now = sdiv i64 %lost_now, %pace
  %missed = load i64, ptr %missed_at
  %missed_sum = add i64 %missed, %missed_now
  store i64 %missed_sum, ptr %missed_at
  %base = select i1 %behind, i64 %time, i64 %due
  %ignored = call i1 @take_posts(ptr %table)
  call void @tick(ptr %table, i64 %late)
  br label %worked
worked:
  %after = call i64 @clock(ptr %table)
  %length = sub i64 %after, %time
  call void @work(ptr %words, i64 %length)
  %period = load atomic i64, ptr %period_at monotonic, align 8
  %next = add i64 %base, %period
  br label %again
still:
  %moved = call i1 @take_posts(ptr %table)
  br i1 %moved, label %show, label %steps
show:
  call void @row(ptr %table, i64 0)
  br label %steps
steps:
  %status_now = load i64, ptr %status_at
  %sound = icmp eq i64 %status_now, 0
  %wanted = load atomic i64, ptr %wanted_at acquire, align 8
  %taken = load i64, ptr %stepped_at
  %more = icmp slt i64 %taken, %wanted
  %step = and i1 %sound, %more
  br i1 %step, label %single, label %idle
single:
  call void @tick(ptr %table, i64 0)
  %one = add i64 %taken, 1
  store atomic i64 %one, ptr %stepped_at release, align 8
  %stepped_time = call i64 @clock(ptr %table)
  br label %again
idle:
  call void @rest(ptr %table, i64 {PAUSED_SLEEP})
  ; the schedule restarts: a pause is not a delay
  %fresh = call i64 @clock(ptr %table)
  br label %again
}
