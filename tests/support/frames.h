#pragma once
// Ethernet frames as a guest sends them, and one byte of them changed.

#include <string>
#include <string_view>

#include "mvm/base/bytes.h"
#include "mvm/base/ip.h"
#include "mvm/virtio/frame_gate.h"

namespace mvm::test {

inline const virtio::FrameOwner kOwner{
    {2, 0, 0, 0, 0, 2}, IpAddress::parse("10.0.0.2").value(), IpAddress::parse("fd00::2").value()};

struct Frame {
  Bytes bytes;

  Frame& with(size_t at, uint8_t value) {
    bytes.at(at) = std::byte{value};
    return *this;
  }
  Frame& resized(size_t length) {
    bytes.resize(length);
    return *this;
  }

  static Frame tcp4(std::string_view data = "") {
    Frame frame = ethernet(0x0800);
    ip4(frame, 6, 20 + data.size());
    return tcp(std::move(frame), data);
  }
  static Frame tcp6(std::string_view data = "") {
    Frame frame = ethernet(0x86dd);
    ip6(frame, 6, 20 + data.size(), kOwner.v6);
    return tcp(std::move(frame), data);
  }
  static Frame udp4(std::string_view data) {
    Frame frame = ethernet(0x0800);
    ip4(frame, 17, 8 + data.size());
    Writer out(frame.bytes);
    out.u32be(1000 << 16 | 53);
    out.u16be(static_cast<uint16_t>(8 + data.size()));
    out.u16be(0);
    out.text(data);
    return frame;
  }
  static Frame arp() {
    Frame frame = ethernet(0x0806);
    Writer out(frame.bytes);
    out.u32be(1 << 16 | 0x0800);
    out.u32be(0x0604 << 16 | 1);
    out.bytes(std::as_bytes(std::span(kOwner.mac)));
    out.bytes(std::as_bytes(kOwner.v4.bytes()));
    out.zeros(10);
    return frame;
  }
  static Frame neighbour_solicitation(std::string_view from) {
    Frame frame = ethernet(0x86dd);
    ip6(frame, 58, 24, IpAddress::parse(from).value());
    Writer out(frame.bytes);
    out.u8(135);
    out.zeros(23);
    return frame;
  }

 private:
  static Frame ethernet(uint16_t type) {
    Frame frame;
    Writer out(frame.bytes);
    out.zeros(6);
    out.bytes(std::as_bytes(std::span(kOwner.mac)));
    out.u16be(type);
    return frame;
  }
  static void ip4(Frame& frame, uint8_t protocol, size_t length) {
    Writer out(frame.bytes);
    out.u16be(0x4500);
    out.u16be(static_cast<uint16_t>(20 + length));
    out.u32be(0x4000);
    out.u8(64);
    out.u8(protocol);
    out.u16be(0);
    out.bytes(std::as_bytes(kOwner.v4.bytes()));
    out.u32be(0x08080808);
  }
  static void ip6(Frame& frame, uint8_t protocol, size_t length, const IpAddress& from) {
    Writer out(frame.bytes);
    out.u32be(0x60000000);
    out.u16be(static_cast<uint16_t>(length));
    out.u8(protocol);
    out.u8(255);
    out.bytes(std::as_bytes(from.bytes()));
    out.zeros(16);
  }
  static Frame tcp(Frame frame, std::string_view data) {
    Writer out(frame.bytes);
    out.u32be(1000 << 16 | 443);
    out.zeros(8);
    out.u32be(0x50020000);
    out.zeros(4);
    out.text(data);
    return frame;
  }
};

}
