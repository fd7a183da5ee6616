#include "mvm/proto/monitor.h"

#include <algorithm>

#include "mvm/proto/cbor.h"
#include "mvm/proto/network.h"

namespace mvm::proto {

static constexpr size_t kMaxText = 4096;
static constexpr size_t kMaxCounters = 256;

static std::string_view as_string(std::span<const uint8_t> bytes) {
  return as_text(std::as_bytes(bytes));
}

template <size_t Size>
static std::array<uint8_t, Size> read_bytes(CborReader& in) {
  std::array<uint8_t, Size> bytes{};
  const std::string_view text = in.string(Size);
  if (text.size() != Size) {
    in.fail();
  } else {
    std::ranges::transform(text, bytes.begin(), [](char c) { return static_cast<uint8_t>(c); });
  }
  return bytes;
}

static void write_nic(CborWriter out, const MonitorNic& nic) {
  Bytes bytes;
  {
    MapWriter map(bytes);
    map.string("mac", as_string(nic.mac));
    map.string("v4", as_string(nic.v4.bytes()));
    map.string("v6", as_string(nic.v6.bytes()));
    map.unsigned_integer("mtu", nic.mtu);
    map.unsigned_integer("beginnings", nic.beginnings);
  }
  out.raw(bytes);
}

static MonitorNic read_nic(CborReader& in) {
  MonitorNic nic;
  for (Fields field(in); field.next();) {
    if (field.is("mac")) {
      nic.mac = read_bytes<6>(in);
    } else if (field.is("v4")) {
      nic.v4 = IpAddress(read_bytes<4>(in));
    } else if (field.is("v6")) {
      nic.v6 = IpAddress(read_bytes<16>(in));
    } else if (field.is("mtu")) {
      nic.mtu = static_cast<uint16_t>(in.unsigned_integer(kMaxMtu));
    } else if (field.is("beginnings")) {
      nic.beginnings = static_cast<uint32_t>(in.unsigned_integer(UINT32_MAX));
    } else {
      field.skip();
    }
  }
  if (nic.mtu < kMinMtu) in.fail();
  return nic;
}

Bytes MonitorConfig::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.unsigned_integer("cpus", cpus);
    map.string("cmdline", cmdline);
    map.boolean("serial", serial);
    map.boolean("kept_disk", kept_disk);
    map.unsigned_integer("disk_bandwidth", disk_bandwidth);
    map.unsigned_integer("disk_iops", disk_iops);
    if (nic) write_nic(map.field("nic"), *nic);
  }
  return out;
}

std::optional<MonitorConfig> MonitorConfig::decode(ByteView data) {
  MonitorConfig config;
  CborReader in(data);
  for (Fields field(in); field.next();) {
    if (field.is("cpus")) {
      config.cpus = static_cast<uint32_t>(in.unsigned_integer(UINT32_MAX));
    } else if (field.is("cmdline")) {
      config.cmdline = in.string(kMaxText);
    } else if (field.is("serial")) {
      config.serial = in.boolean();
    } else if (field.is("kept_disk")) {
      config.kept_disk = in.boolean();
    } else if (field.is("disk_bandwidth")) {
      config.disk_bandwidth = in.unsigned_integer();
    } else if (field.is("disk_iops")) {
      config.disk_iops = in.unsigned_integer();
    } else if (field.is("nic")) {
      config.nic = read_nic(in);
    } else {
      field.skip();
    }
  }
  if (!in || !in.at_end()) return std::nullopt;
  if (config.cpus < 1 || config.cpus > kMaxMachineCpus) return std::nullopt;
  return config;
}

Bytes MonitorRequest::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.unsigned_integer("kind", static_cast<uint64_t>(kind));
    map.unsigned_integer("port", port);
    map.unsigned_integer("stream", stream);
    map.boolean("announce", announce);
    if (balloon) map.unsigned_integer("balloon", *balloon);
    map.unsigned_integer("rows", terminal.rows);
    map.unsigned_integer("columns", terminal.columns);
  }
  return out;
}

std::optional<MonitorRequest> MonitorRequest::decode(ByteView data) {
  MonitorRequest request;
  bool has_kind = false;
  CborReader in(data);
  for (Fields field(in); field.next();) {
    if (field.is("kind")) {
      constexpr auto kLast = static_cast<uint64_t>(MonitorRequestKind::Console);
      request.kind = static_cast<MonitorRequestKind>(in.unsigned_integer(kLast));
      has_kind = true;
    } else if (field.is("port")) {
      request.port = static_cast<uint32_t>(in.unsigned_integer(UINT32_MAX));
    } else if (field.is("stream")) {
      request.stream = in.unsigned_integer();
    } else if (field.is("announce")) {
      request.announce = in.boolean();
    } else if (field.is("balloon")) {
      request.balloon = in.unsigned_integer();
    } else if (field.is("rows")) {
      request.terminal.rows = static_cast<uint16_t>(in.unsigned_integer(UINT16_MAX));
    } else if (field.is("columns")) {
      request.terminal.columns = static_cast<uint16_t>(in.unsigned_integer(UINT16_MAX));
    } else {
      field.skip();
    }
  }
  if (!in || !in.at_end() || !has_kind) return std::nullopt;
  return request;
}

Bytes MonitorEvent::encode() const {
  Bytes out;
  {
    MapWriter map(out);
    map.unsigned_integer("kind", static_cast<uint64_t>(kind));
    map.unsigned_integer("port", port);
    map.unsigned_integer("stream", stream);
    map.unsigned_integer("cause", static_cast<uint64_t>(cause));
    map.string("detail", detail);
    CborWriter list = map.field("counters");
    list.map(counters.size());
    for (const auto& [name, value] : counters) {
      list.string(name);
      list.unsigned_integer(value);
    }
    if (kind == MonitorEventKind::Memory) map.field("memory").raw(memory.encode());
  }
  return out;
}

std::optional<MonitorEvent> MonitorEvent::decode(ByteView data) {
  MonitorEvent event;
  bool has_kind = false;
  CborReader in(data);
  for (Fields field(in); field.next();) {
    if (field.is("kind")) {
      constexpr auto kLast = static_cast<uint64_t>(MonitorEventKind::Memory);
      event.kind = static_cast<MonitorEventKind>(in.unsigned_integer(kLast));
      has_kind = true;
    } else if (field.is("port")) {
      event.port = static_cast<uint32_t>(in.unsigned_integer(UINT32_MAX));
    } else if (field.is("stream")) {
      event.stream = in.unsigned_integer();
    } else if (field.is("cause")) {
      event.cause =
          static_cast<EndCause>(in.unsigned_integer(static_cast<uint64_t>(EndCause::Failed)));
    } else if (field.is("detail")) {
      event.detail = in.string(kMaxText);
    } else if (field.is("counters")) {
      const size_t count = in.map(kMaxCounters);
      for (size_t i = 0; i < count && in; ++i) {
        const auto name = in.string(kMaxText);
        event.counters.emplace_back(name, in.unsigned_integer());
      }
    } else if (field.is("memory")) {
      const auto memory = MemoryUse::decode(in.skip());
      if (!memory) return std::nullopt;
      event.memory = *memory;
    } else {
      field.skip();
    }
  }
  if (!in || !in.at_end() || !has_kind) return std::nullopt;
  return event;
}

}
