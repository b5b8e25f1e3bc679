"""The parts of the loop of ticks in assembly: memory, clock, rows, what was posted, counts.

Words in braces are places and sizes, which `tick_code` puts in; ``{loads}`` stands for everything
that the table of the loop holds.
"""

__all__ = ["COUNT", "ROW", "SHARED", "TAKE"]

SHARED = """
; loops of our own: code here calls no library by name
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

; what Python reads of the loop: everything written before is there
define i64 @peek(ptr %word) {
  %value = load atomic i64, ptr %word acquire, align 8
  ret i64 %value
}

; Python's way to hand numbers over: odd while they change, even when they are whole
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

; takes numbers that are new and whole; those that change meanwhile wait for the next tick
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
"""

ROW = """
; writes where the robot is, with the commands and how late the tick began
define internal void @row(ptr %table, i64 %late) {
  %words = load ptr, ptr %table
  {loads}
  %head_at = getelementptr i64, ptr %words, i64 {HEAD}
  %head = load i64, ptr %head_at
  %last = sub i64 %RING_ROWS, 1
  %place = and i64 %head, %last
  %shift = mul i64 %place, %RING_STRIDE
  %row = getelementptr double, ptr %RING, i64 %shift
  %done_at = getelementptr double, ptr %CLOCK, i64 %DONE_PLACE
  %done = load double, ptr %done_at
  store double %done, ptr %row
  %late_at = getelementptr double, ptr %row, i64 1
  %late_number = sitofp i64 %late to double
  store double %late_number, ptr %late_at
  %state_at = getelementptr double, ptr %row, i64 2
  %state_bytes = mul i64 %STATE_SIZE, 8
  call void @copy(ptr %state_at, ptr %STATE, i64 %state_bytes)
  %held_at = getelementptr double, ptr %state_at, i64 %STATE_SIZE
  %held_bytes = mul i64 %HELD_SIZE, 8
  call void @copy(ptr %held_at, ptr %NUMBERS, i64 %held_bytes)
  %next = add i64 %head, 1
  store atomic i64 %next, ptr %head_at release, align 8
  ret void
}

; one tick: the kernel goes on from the state; a state with numbers that are not finite is refused
define internal void @tick(ptr %table, i64 %late) {
  %words = load ptr, ptr %table
  {loads}
  %status = call i32 %KERNEL(ptr %INPUTS, ptr %OUTPUTS)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %diverged, label %good
diverged:
  %status_at = getelementptr i64, ptr %words, i64 {STATUS}
  store atomic i64 1, ptr %status_at release, align 8
  ret void
good:
  %bytes = mul i64 %STATE_SIZE, 8
  call void @copy(ptr %STATE, ptr %FOUND, i64 %bytes)
  %done_at = getelementptr double, ptr %CLOCK, i64 %DONE_PLACE
  %done = load double, ptr %done_at
  %steps = sitofp i64 %STEPS to double
  %more = fadd double %done, %steps
  store double %more, ptr %done_at
  call void @row(ptr %table, i64 %late)
  ret void
}
"""

TAKE = """
; takes what Python has posted: a state to go on from, then commands and numbers
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
  ; after the state comes how many steps are done there
  %count_at = getelementptr double, ptr %STAGE, i64 %STATE_SIZE
  %count = load double, ptr %count_at
  %done_at = getelementptr double, ptr %CLOCK, i64 %DONE_PLACE
  store double %count, ptr %done_at
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
"""

COUNT = """
; remembers how late a tick began: bins, the latest, and all that were too late
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
  %most_at = getelementptr i64, ptr %words, i64 {MOST_LATE}
  %most = load i64, ptr %most_at
  %later = icmp sgt i64 %late, %most
  %latest = select i1 %later, i64 %late, i64 %most
  store i64 %latest, ptr %most_at
  %limit_at = getelementptr i64, ptr %words, i64 {LIMIT}
  %limit = load i64, ptr %limit_at
  %before_at = getelementptr i64, ptr %words, i64 {LATE_BEFORE}
  %before = load i64, ptr %before_at
  %too_late = icmp sgt i64 %late, %limit
  %too_late_word = zext i1 %too_late to i64
  store i64 %too_late_word, ptr %before_at
  br i1 %too_late, label %overrun, label %done
overrun:
  ; one gap makes many ticks late: gaps begin after a tick in time
  %gaps_at = getelementptr i64, ptr %words, i64 {GAPS}
  %gaps = load i64, ptr %gaps_at
  %gaps_more = add i64 %gaps, 1
  %gaps_now = sub i64 %gaps_more, %before
  store i64 %gaps_now, ptr %gaps_at
  %overruns_at = getelementptr i64, ptr %words, i64 {OVERRUNS}
  %overruns = load i64, ptr %overruns_at
  %slot = and i64 %overruns, {LAST_LOG}
  %pair = mul i64 %slot, 2
  %tick_at = getelementptr i64, ptr %LOG, i64 %pair
  store i64 %ticks, ptr %tick_at
  %size_at = getelementptr i64, ptr %tick_at, i64 1
  store i64 %late, ptr %size_at
  ; waiting awake is paid for in turns where others want the processor, too: less of it
  %margin_at = getelementptr i64, ptr %words, i64 {MARGIN}
  %margin = load atomic i64, ptr %margin_at monotonic, align 8
  %never_sleeps = icmp sge i64 %margin, {AWAKE}
  %half = ashr i64 %margin, 1
  %margin_now = select i1 %never_sleeps, i64 %margin, i64 %half
  store atomic i64 %margin_now, ptr %margin_at monotonic, align 8
  %counted = add i64 %overruns, 1
  store atomic i64 %counted, ptr %overruns_at release, align 8
  br label %done
done:
  ret void
}

; adds the time a tick took
define internal void @work(ptr %words, i64 %length) {
  %sum_at = getelementptr i64, ptr %words, i64 {BUSY}
  %sum = load i64, ptr %sum_at
  %more = add i64 %sum, %length
  store i64 %more, ptr %sum_at
  %most_at = getelementptr i64, ptr %words, i64 {MOST_BUSY}
  %most = load i64, ptr %most_at
  %longer = icmp sgt i64 %length, %most
  %longest = select i1 %longer, i64 %length, i64 %most
  store i64 %longest, ptr %most_at
  ret void
}

; starts the counts anew where Python asks for it
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
"""
