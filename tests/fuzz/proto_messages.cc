// Every message and the entry stream of a copy. What decodes encodes again to something that
// decodes to the same; an entry stream means the same however it is cut, and names nothing outside
// its tree.

#include <algorithm>
#include <cstdlib>
#include <string>

#include "mvm/proto/control.h"
#include "mvm/proto/copy.h"
#include "mvm/proto/exec.h"
#include "mvm/proto/machine_base.h"
#include "mvm/proto/monitor.h"
#include "mvm/proto/ports.h"
#include "mvm/proto/sandbox_config.h"

namespace {

using namespace mvm;
using namespace mvm::proto;

template <typename Message>
void round_trip(ByteView data) {
  const auto message = Message::decode(data);
  if (!message) return;
  const auto again = Message::decode(message->encode());
  if (!again) std::abort();
  if (message->encode() != again->encode()) std::abort();
}

void end_round_trip(ByteView data) {
  const auto end = End::decode(data);
  if (!end) return;
  const auto again = End::decode(end->error ? encode_error(*end->error) : encode_ok(end->result));
  if (!again || again->error != end->error) std::abort();
}

// The stream, encoded again with one chunk for each run of content.
std::string read_stream(ByteView data, size_t step, bool& fault) {
  EntryDecoder decoder;
  std::string out;
  while (!data.empty() && !decoder.faulted()) {
    ByteView piece = data.first(std::min(step, data.size()));
    data = data.subspan(piece.size());
    while (const auto event = decoder.next(piece)) {
      switch (event->what) {
        case EntryEvent::What::Entry: {
          if (!event->entry.path.empty() && !is_tree_path(event->entry.path)) std::abort();
          Bytes encoded;
          append_entry(encoded, event->entry);
          out += as_text(encoded);
          break;
        }
        case EntryEvent::What::Content:
          if (event->content.empty() || event->content.size() > kMaxChunk) std::abort();
          out += as_text(event->content);
          break;
        case EntryEvent::What::Hole:
          if (event->hole == 0 || event->hole > kMaxHole) std::abort();
          out += "<" + std::to_string(event->hole) + ">";
          break;
        case EntryEvent::What::ContentEnd:
          out += "|";
          break;
        case EntryEvent::What::TreeEnd:
          out += ".";
          break;
      }
    }
  }
  fault = decoder.faulted();
  return out;
}

}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const uint8_t choice = data[0];
  const ByteView rest = std::as_bytes(std::span(data + 1, size - 1));
  round_trip<ExecRequest>(rest);
  round_trip<ExecStarted>(rest);
  round_trip<PortList>(rest);
  round_trip<PublishRequest>(rest);
  round_trip<UnpublishRequest>(rest);
  round_trip<ExecResult>(rest);
  round_trip<Hello>(rest);
  round_trip<AgentInfo>(rest);
  round_trip<ShutdownRequest>(rest);
  round_trip<TrustRequest>(rest);
  round_trip<SyncTimeRequest>(rest);
  round_trip<SandboxEnd>(rest);
  round_trip<SandboxStatus>(rest);
  round_trip<HealthCheck>(rest);
  round_trip<HealthStatus>(rest);
  round_trip<StopRequest>(rest);
  round_trip<MemoryRequest>(rest);
  round_trip<MemoryUse>(rest);
  round_trip<PutRequest>(rest);
  round_trip<GetRequest>(rest);
  round_trip<LaneOpened>(rest);
  round_trip<CopyResult>(rest);
  round_trip<SandboxConfig>(rest);
  round_trip<MachineBase>(rest);
  round_trip<MonitorConfig>(rest);
  round_trip<MonitorRequest>(rest);
  round_trip<MonitorEvent>(rest);
  end_round_trip(rest);

  bool whole_fault = false;
  bool cut_fault = false;
  const std::string whole = read_stream(rest, SIZE_MAX, whole_fault);
  const std::string cut = read_stream(rest, size_t{choice} + 1, cut_fault);
  if (whole != cut || whole_fault != cut_fault) std::abort();
  return 0;
}
