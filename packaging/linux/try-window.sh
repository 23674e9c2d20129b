#!/bin/sh
# Run inside of the root of test-package.sh: the window under Xvfb, and double-click.
set -eu
sample=$1
export XDG_CURRENT_DESKTOP=GNOME LIBGL_ALWAYS_SOFTWARE=1 XDG_RUNTIME_DIR=/tmp/runtime
mkdir -p "$XDG_RUNTIME_DIR" && chmod 700 "$XDG_RUNTIME_DIR"
# A number that no other X server has: this root shares them with what is outside of it.
rm -f /tmp/display
# It must not reset when xdotool, its only client, leaves: meanwhile it refuses others.
Xvfb -displayfd 3 -noreset -screen 0 1600x1000x24 +extension GLX 3>/tmp/display \
    >/dev/null 2>&1 &
server=$!
trap 'kill $server $(cat /tmp/pids 2>/dev/null) 2>/dev/null || true' EXIT
: >/tmp/pids
# Errors go to stderr: a step's output is a figure.
fail() { echo "$*" >&2; exit 1; }
tries=0
until [ -s /tmp/display ]; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || fail "Xvfb does not start"
    sleep 0.1
done
DISPLAY=:$(cat /tmp/display)
export DISPLAY

now() { date +%s%N; }
# Seconds from the start of the program to a window that is on the screen.
start() {
    begin=$(now)
    "$@" >/tmp/window.log 2>&1 &
    pid=$!
    echo $pid >>/tmp/pids
    tries=0
    until xdotool search --onlyvisible --name 'ggscope' >/tmp/windows 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 1000 ] || fail "no window; $(cat /tmp/window.log)"
        kill -0 $pid 2>/dev/null || fail "it ended; $(cat /tmp/window.log)"
        sleep 0.01
    done
    echo $((($(now) - begin) / 1000000))
}

runs=""
for round in 1 2 3 4 5; do
    start ggscope >/tmp/took
    runs="$runs $(cat /tmp/took)"
    kill "$(tail -1 /tmp/pids)"
    while kill -0 "$(tail -1 /tmp/pids)" 2>/dev/null; do sleep 0.1; done
done
echo "start to window, ms:$runs; median $(printf '%s\n' $runs | sort -n | sed -n 3p)"

# Where test-package.sh brought a llama.cpp: the demo of the start page, to its end.
if ls -d "$HOME"/.local/share/ggscope/capture/*/ >/dev/null 2>&1; then
    ggscope --demo >/tmp/window.log 2>&1 &
    pid=$!
    echo $pid >>/tmp/pids
    tries=0
    until ls "$HOME"/.local/share/ggscope/demo/*.bin >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || fail "the live demo records nothing; $(cat /tmp/window.log)"
        kill -0 $pid 2>/dev/null || fail "the live demo ended; $(cat /tmp/window.log)"
        sleep 0.1
    done
    kill $pid
    while kill -0 $pid 2>/dev/null; do sleep 0.1; done
    echo "the live demo records"
fi

if ! ls /usr/share/applications/*ggscope.desktop >/dev/null 2>&1; then
    echo "no desktop file: double-click is not tried"
    exit 0
fi
update-desktop-database -q
update-mime-database /usr/share/mime
cp "$sample" /tmp/trace.ggmlviz
cp "$sample" /tmp/trace-without-suffix
chosen=$(xdg-mime query default application/x-ggmlviz)
case $chosen in *ggscope.desktop) ;; *) fail "default for traces: '$chosen'" ;; esac
for file in /tmp/trace.ggmlviz /tmp/trace-without-suffix; do
    gio info -a standard::content-type "$file" | grep -q application/x-ggmlviz ||
        fail "$file has another type: $(gio info -a standard::content-type "$file")"
done
for type in application/json application/octet-stream; do
    case $(xdg-mime query default $type) in *ggscope*) fail "$type is claimed" ;; esac
done

# The first opens the window, the second a tab in it.
xdg-open /tmp/trace.ggmlviz >/tmp/open.log 2>&1 &
tries=0
until xdotool search --onlyvisible --name 'trace.ggmlviz' >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || fail "xdg-open: no window with the file; $(cat /tmp/open.log)"
    sleep 0.05
done
xdg-open /tmp/trace-without-suffix >>/tmp/open.log 2>&1
tries=0
until xdotool search --onlyvisible --name 'trace-without-suffix' >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 400 ] || fail "the second file is not in front; $(cat /tmp/open.log)"
    sleep 0.05
done
count=$(xdotool search --onlyvisible --name 'trace' | wc -l)
[ "$count" = 1 ] || fail "$count windows instead of one with two tabs"
pgrep -f '/usr/lib/ggscope/ggscope|^ggscope' >>/tmp/pids 2>/dev/null || true
xdotool search --onlyvisible --name 'trace' windowclose >/dev/null 2>&1 || true
echo "double-click opens the window, and the next file as a tab in it"
