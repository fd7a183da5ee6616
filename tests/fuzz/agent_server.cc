// What a host may say to the guest's agent, from its first byte: a real server on a socket pair,
// its loop turned by hand. The input is a list of choices: mostly frames that make sense (a
// greeting, requests of every verb with places below a scratch directory, data within credit, ends,
// windows, cancels; lanes where they are offered), now and then bytes as they are. Commands are not
// started: what they do is not the protocol's.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include <unistd.h>

#include "mvm/proto/control.h"
#include "mvm/proto/copy.h"
#include "mvm/proto/files.h"
#include "mvm/proto/forward.h"
#include "mvm/proto/metrics.h"
#include "mvm/sys/file.h"
#include "mvm/sys/io.h"
#include "mvm/sys/socket.h"

#include "fuzz/input.h"
#include "server.h"

using namespace mvm;
using fuzz::Input;
using proto::FrameType;

// A unix socket takes this much at once.
static constexpr size_t kMaxInput = 16 * 1024;

namespace {

std::string some_path(Input& in) {
  static constexpr const char* kNames[] = {"a",      "b",    "a/b",    ".", "..",
                                           "a/../b", "link", "link/x", ""};
  return kNames[in.below(std::size(kNames))];
}

proto::FilePlace place(Input& in, const std::string& root) { return {root, some_path(in)}; }

Bytes request(Input& in, const std::string& root) {
  switch (in.below(14)) {
    case 0:
      return proto::encode_request(proto::kPingVerb);
    case 1:
      return proto::encode_request(proto::kInfoVerb);
    case 2:
      return proto::encode_request(proto::kMetricsVerb);
    case 3:
      return proto::StatRequest{place(in, root), in.rarely(2)}.encode();
    case 4:
      return proto::ListRequest{place(in, root), in.below(4)}.encode();
    case 5:
      return proto::ReadRequest{place(in, root), in.below(8192), in.below(8192)}.encode();
    case 6: {
      proto::WriteRequest write;
      write.place = place(in, root);
      if (in.rarely(3)) write.offset = in.below(8192);
      write.append = in.rarely(4);
      write.exclusive = in.rarely(4);
      write.limit = in.below(32768);
      return write.encode();
    }
    case 7:
      return proto::MakeDirectoryRequest{place(in, root), 0755, in.rarely(2), ""}.encode();
    case 8:
      return proto::RenameRequest{place(in, root), some_path(in), in.rarely(2)}.encode();
    case 9:
      return proto::RemoveRequest{place(in, root), in.rarely(2)}.encode();
    case 10:
      return proto::WatchRequest{place(in, root)}.encode();
    case 11: {
      proto::GetRequest get;
      get.path = root + "/" + some_path(in);
      return get.encode();
    }
    case 12: {
      proto::PutRequest put;
      put.path = root + "/put";
      return put.encode();
    }
    default: {
      const auto raw = in.bytes(in.below(256));
      const auto bytes = std::as_bytes(raw);
      // Whatever it is, it is no command, no shutdown and no clock.
      const auto verb = proto::request_verb(bytes);
      if (verb && (*verb == proto::kExecVerb || *verb == proto::kShutdownVerb ||
                   *verb == proto::kSyncTimeVerb || *verb == proto::kTrustVerb ||
                   verb->starts_with("fs.") || *verb == "put" || *verb == "get" ||
                   *verb == proto::kTcpVerb))
        return {};
      return Bytes(bytes.begin(), bytes.end());
    }
  }
}

void append_choice(Input& in, const std::string& root, Bytes& out) {
  const uint32_t stream = 1 + in.below(6);
  switch (in.below(12)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return proto::append_frame(out, stream, FrameType::Request, request(in, root));
    case 4:
    case 5:
      return proto::append_frame(out, stream, FrameType::Data,
                                 std::as_bytes(in.bytes(in.below(4096))));
    case 6:
      return proto::append_frame(out, stream, FrameType::Eof);
    case 7:
      return proto::append_frame(out, stream, FrameType::Cancel);
    case 8:
      return proto::append_window(out, stream, in.u16());
    case 9:
      return proto::append_frame(out, in.below(8), static_cast<FrameType>(in.below(14)),
                                 std::as_bytes(in.bytes(in.below(64))));
    default:
      if (in.rarely(8)) Writer(out).bytes(std::as_bytes(in.bytes(in.below(64))));
  }
}

// The host's ends of the lanes that the agent offers.
class Lanes {
 public:
  guest::ListenLane listener() {
    return [this] {
      ++offered_;
      return guest::LaneListener{sys::listen_unix(path(offered_)), offered_};
    };
  }
  void play(Input& in) {
    while (sockets_.size() < offered_) {
      const auto port = static_cast<uint32_t>(sockets_.size() + 1);
      auto socket = sys::connect_unix(path(port), sys::Blocking::No);
      sockets_.push_back(socket ? std::move(*socket) : sys::Fd());
    }
    if (sockets_.empty() || !sockets_.back()) return;
    if (in.rarely(8)) return sockets_.back().reset();
    Bytes out;
    switch (in.below(6)) {
      case 0: {
        proto::Entry entry;
        entry.mode = 0644;
        entry.size = uint64_t{in.u16()} << in.below(24);
        if (in.rarely(2)) entry.path = some_path(in);
        if (in.rarely(4)) entry.type = proto::EntryType::Directory;
        try {
          proto::append_entry(out, entry);
        } catch (const Error&) {
          return;
        }
        break;
      }
      case 1:
        proto::append_chunk_head(out, 1 + in.below(proto::kMaxChunk));
        break;
      case 2:
        proto::append_hole(out, 1 + uint64_t{in.u16()} * in.u16());
        break;
      case 3:
        proto::append_content_end(out);
        break;
      case 4:
        proto::append_tree_end(out);
        break;
      default:
        Writer(out).bytes(std::as_bytes(in.bytes(in.below(4096))));
        // A large file's content, for few bytes of input.
        if (in.rarely(4)) out.resize(size_t{64} * 1024);
    }
    try {
      static_cast<void>(sys::send_some(sockets_.back().get(), out));
    } catch (const Error&) {
      sockets_.back().reset();
    }
  }

 private:
  std::string path(uint32_t port) const { return directory_.path() + "/" + std::to_string(port); }

  sys::TempDir directory_;
  uint32_t offered_ = 0;
  std::vector<sys::Fd> sockets_;
};

// Reads what the agent says; false once it has hung up. Its frames must decode.
bool drain(int fd, proto::FrameDecoder& decoder) {
  while (true) {
    std::optional<size_t> got;
    try {
      got = sys::read_some(fd, decoder.space());
    } catch (const Error&) {
      return false;
    }
    if (!got) return true;
    if (*got == 0) return false;
    decoder.commit(*got);
    while (const auto frame = decoder.next())
      if (frame->type == FrameType::End && !proto::End::decode(frame->payload)) std::abort();
    if (decoder.fault()) std::abort();
  }
}

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > kMaxInput) return 0;
  Input in(data, size);
  const sys::TempDir scratch;
  const std::string root = scratch.path() + "/root";
  const std::string outside = scratch.path() + "/outside";
  sys::make_directories(root + "/a");
  sys::make_directories(outside);
  sys::write_file_atomic(root + "/b", as_bytes("content"));
  if (::symlink(outside.c_str(), (root + "/link").c_str()) != 0) std::abort();

  auto [ours, theirs] = sys::socket_pair(sys::SocketType::Stream);
  sys::set_nonblocking(ours.get());
  {
    loop::Loop loop;
    Lanes lanes;
    guest::Server::Options options;
    options.copies.listen_lane = lanes.listener();
    guest::Server server(loop, std::move(options));
    server.serve(std::move(theirs));
    proto::FrameDecoder decoder;
    Bytes out;
    if (!in.rarely(16))
      proto::append_frame(out, proto::kConnectionStream, FrameType::Hello,
                          proto::Hello{proto::kProtocolVersion, "client", ""}.encode());
    bool open = true;
    while (open && !(in.empty() && out.empty())) {
      for (uint32_t i = in.below(4); i > 0 && !in.empty(); --i) append_choice(in, root, out);
      if (out.empty()) append_choice(in, root, out);
      try {
        const size_t sent = out.empty() ? 0 : sys::send_some(ours.get(), out).value_or(0);
        out.erase(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(sent));
      } catch (const Error&) {
        open = false;
      }
      lanes.play(in);
      for (int turn = 0; turn < 3; ++turn) loop.run_once(std::chrono::milliseconds(0));
      open = open && drain(ours.get(), decoder);
    }
    for (int turn = 0; turn < 20; ++turn) loop.run_once(std::chrono::milliseconds(0));
    ours.reset();
    for (int turn = 0; turn < 5; ++turn) loop.run_once(std::chrono::milliseconds(0));
    // A host that has gone leaves nothing running.
    if (server.connections() != 0 || server.orphans() != 0) std::abort();
  }
  // Places had a root, and copies went to it: nothing came to lie elsewhere.
  if (!sys::list_directory(outside).empty() || sys::list_directory(scratch.path()).size() != 2)
    std::abort();
  return 0;
}
