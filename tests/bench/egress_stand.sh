# The stand of egress.py, once, without its peers: a name, a stream each way, and what no rule admits.
#   egress_stand.sh STAND LOAD
stand=$1 load=$2
unshare --user --map-root-user --net true 2>/dev/null || exit 77
export stand load
for link in veth tap; do
  "$stand" "$link" - name=stream.example=93.184.216.36 host=stream.example:7000 -- sh -ec '
    "$load" serve 93.184.216.36:7000 &
    server=$!
    trap "kill $server" EXIT
    guest="nsenter --net=$STAND_GUEST"
    grep -q "BEGIN CERTIFICATE" "$STAND_AUTHORITY" && exit 1  # nothing is inspected
    until "$load" down 93.184.216.36:7000 1 >/dev/null 2>&1; do kill -0 $server; done
    $guest "$load" resolve 100.127.255.1 stream.example
    $guest "$load" up 93.184.216.36:7000 4
    $guest "$load" down 93.184.216.36:7000 4
    ! $guest "$load" resolve 100.127.255.1 other.example 2>/dev/null
    ! $guest "$load" down 93.184.216.36:7001 1 2>/dev/null
  ' || exit 1
done
