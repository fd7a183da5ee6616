// What a sandbox may say to the host's client, from its first byte: the connection, the stream of a
// call, and a copy that is written to disk. The first byte chooses; nothing may ever come to lie
// outside the destination.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "mvm/agent/copy.h"
#include "mvm/agent/files.h"
#include "mvm/proto/control.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

using namespace mvm;

// A unix socket takes this much at once.
static constexpr size_t kMaxInput = 64 * 1024;

static agent::Connection connection_saying(ByteView said) {
  auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
  sys::write_all(theirs.get(), said);
  return agent::Connection(std::move(ours));
}

// So that the bytes behind it are not lost on the greeting.
static Bytes greeted(ByteView rest) {
  Bytes said;
  proto::append_frame(said, proto::kConnectionStream, proto::FrameType::Hello,
                      proto::Hello{proto::kProtocolVersion, "agent", ""}.encode());
  Writer(said).bytes(rest);
  return said;
}

// Nothing may come that was not asked for, nor a name that leads anywhere.
static void play_file_verb(uint8_t choice, ByteView data) {
  auto connection = connection_saying(greeted(data));
  uint64_t count = 0;
  switch (choice % 5) {
    case 0:
      agent::list_files(connection, {{"", "/x"}, 3}, [&](const proto::ListEntry& entry) {
        if (++count > 3 || entry.name.find('/') != std::string::npos || entry.name == "..")
          std::abort();
      });
      return;
    case 1:
      agent::read_file(connection, {{"", "/x"}, 0, 100}, [&](ByteView content) {
        if ((count += content.size()) > 100) std::abort();
      });
      return;
    case 2:
      agent::watch_files(connection, {{"", "/x"}}, [&](const proto::WatchEvent& event) {
        if (event.name.find('/') != std::string::npos) std::abort();
        return ++count < 100;
      });
      return;
    case 3:
      agent::write_file(connection, {{"", "/x"}},
                        [&](size_t) { return ++count < 3 ? as_bytes("content") : ByteView(); });
      return;
    default:
      connection.metrics(std::nullopt);
      agent::stat_file(connection, {{"", "/x"}, false});
  }
}

static void play(uint8_t choice, ByteView data, const std::string& destination) {
  agent::TreeWriteOptions limits;
  limits.max_entries = 64;
  limits.max_bytes = 1 << 20;
  if (choice >= 200) return play_file_verb(choice, data);
  switch (choice % 4) {
    case 0:
      connection_saying(data).ping(std::nullopt);
      return;
    case 1:
      connection_saying(greeted(data)).status(std::nullopt);
      return;
    case 2: {
      auto connection = connection_saying(greeted(data));
      agent::GetOptions options;
      options.write = limits;
      agent::get(connection, "/x", destination, options);
      return;
    }
    default: {
      agent::TreeWriter writer(destination, choice >= 128 ? "name" : "", limits);
      writer.take(data);
      return;
    }
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > kMaxInput) return 0;
  const sys::TempDir base;
  const std::string destination = base.path() + "/destination";
  sys::make_directories(destination);
  try {
    play(data[0], std::as_bytes(std::span(data + 1, size - 1)), destination);
  } catch (const Error&) {
    // The usual end.
  }
  if (sys::list_directory(base.path()).size() != 1) std::abort();
  return 0;
}
