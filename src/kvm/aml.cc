#include "aml.h"

#include "mvm/base/error.h"

namespace mvm::kvm::aml {

static Bytes bytes_of(std::initializer_list<unsigned> values) {
  Bytes out;
  for (const unsigned value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

static void append(Bytes& out, const Bytes& more) {
  out.insert(out.end(), more.begin(), more.end());
}

// PkgLength: counts itself and the body; its first byte holds how many bytes follow and the low
// bits.
static Bytes with_length(const Bytes& body) {
  Bytes out;
  Writer writer(out);
  const size_t one = body.size() + 1, two = body.size() + 2, three = body.size() + 3;
  if (one < 0x40) {
    writer.u8(static_cast<uint8_t>(one));
  } else if (two < 0x1000) {
    writer.u8(static_cast<uint8_t>(0x40 | (two & 0xf)));
    writer.u8(static_cast<uint8_t>(two >> 4));
  } else {
    MVM_ASSERT(three < 0x10'0000);
    writer.u8(static_cast<uint8_t>(0x80 | (three & 0xf)));
    writer.u8(static_cast<uint8_t>(three >> 4));
    writer.u8(static_cast<uint8_t>(three >> 12));
  }
  append(out, body);
  return out;
}

// NameString: a root character and up to two segments of four characters.
static Bytes name_string(std::string_view path) {
  Bytes out;
  Writer writer(out);
  if (path.starts_with('\\')) {
    writer.u8('\\');
    path.remove_prefix(1);
  }
  MVM_ASSERT(path.size() == 4);
  writer.text(path);
  return out;
}

Bytes integer(uint64_t value) {
  Bytes out;
  Writer writer(out);
  if (value <= 1) {
    writer.u8(static_cast<uint8_t>(value));
  } else if (value <= 0xff) {
    writer.u8(0x0a);
    writer.u8(static_cast<uint8_t>(value));
  } else if (value <= 0xffff) {
    writer.u8(0x0b);
    writer.u16(static_cast<uint16_t>(value));
  } else if (value <= 0xffff'ffff) {
    writer.u8(0x0c);
    writer.u32(static_cast<uint32_t>(value));
  } else {
    writer.u8(0x0e);
    writer.u64(value);
  }
  return out;
}

Bytes text(std::string_view value) {
  Bytes out;
  Writer writer(out);
  writer.u8(0x0d);
  writer.text(value);
  writer.u8(0);
  return out;
}

Bytes eisa_id(std::string_view id) {
  MVM_ASSERT(id.size() == 7);
  const auto letter = [&](size_t i) { return static_cast<uint32_t>(id[i] - 'A' + 1) & 0x1f; };
  const auto digit = [&](size_t i) {
    return static_cast<uint32_t>(id[i] <= '9' ? id[i] - '0' : id[i] - 'A' + 10);
  };
  const uint32_t maker = letter(0) << 10 | letter(1) << 5 | letter(2);
  const uint32_t product = digit(3) << 12 | digit(4) << 8 | digit(5) << 4 | digit(6);
  return integer(__builtin_bswap32(maker << 16 | product));
}

Bytes package(std::initializer_list<Bytes> elements) {
  Bytes body = bytes_of({static_cast<unsigned>(elements.size())});
  for (const auto& element : elements) append(body, element);
  Bytes out = bytes_of({0x12});
  append(out, with_length(body));
  return out;
}

Bytes name(std::string_view path, const Bytes& value) {
  Bytes out = bytes_of({0x08});
  append(out, name_string(path));
  append(out, value);
  return out;
}

Bytes device(std::string_view segment, std::initializer_list<Bytes> body) {
  Bytes content = name_string(segment);
  for (const auto& term : body) append(content, term);
  Bytes out = bytes_of({0x5b, 0x82});
  append(out, with_length(content));
  return out;
}

Bytes scope(std::string_view path, const Bytes& body) {
  Bytes content = name_string(path);
  append(content, body);
  Bytes out = bytes_of({0x10});
  append(out, with_length(content));
  return out;
}

Bytes memory32(uint32_t start, uint32_t size) {
  Bytes out = bytes_of({0x86, 9, 0, 1});  // Memory32Fixed, writable
  Writer writer(out);
  writer.u32(start);
  writer.u32(size);
  return out;
}

Bytes interrupt(uint32_t gsi) {
  Bytes out =
      bytes_of({0x89, 6, 0, 0b0011, 1});  // extended; consumer, edge, active high, exclusive; one
  Writer(out).u32(gsi);
  return out;
}

Bytes io_ports(uint16_t first, uint8_t count) {
  Bytes out = bytes_of({0x47, 1});  // decodes 16 bits
  Writer writer(out);
  writer.u16(first);
  writer.u16(first);
  writer.u8(1);
  writer.u8(count);
  return out;
}

Bytes resources(std::initializer_list<Bytes> descriptors) {
  Bytes content;
  for (const auto& descriptor : descriptors) append(content, descriptor);
  append(content, bytes_of({0x79, 0}));  // end tag; 0 is "checksum not used"
  Bytes body = integer(content.size());
  append(body, content);
  Bytes out = bytes_of({0x11});
  append(out, with_length(body));
  return out;
}

}
