#pragma once
// Answers of providers, written down from their public references (tests/unit/meter/fixtures), and
// a second writer of AWS's framing.

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "mvm/meter/reader.h"

namespace mvm::meter {

inline std::string fixture(const std::string& name) {
  std::ifstream in(std::string(MVM_FIXTURES) + "/" + name, std::ios::binary);
  EXPECT_TRUE(in) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::string big_endian(uint32_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>((value >> shift) & 0xff);
  return out;
}

// Bit by bit, unlike the reader's.
inline uint32_t slow_crc32(std::string_view bytes) {
  uint32_t crc = 0xffffffffU;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0xedb88320U : crc >> 1;
  }
  return ~crc;
}

inline std::string aws_message(std::string_view event_type, std::string_view payload) {
  std::string headers;
  for (const auto& [name, value] : std::vector<std::pair<std::string_view, std::string_view>>{
           {":event-type", event_type},
           {":content-type", "application/json"},
           {":message-type", "event"}}) {
    headers += static_cast<char>(name.size());
    headers += name;
    headers += '\7';  // a string
    headers += static_cast<char>(value.size() >> 8);
    headers += static_cast<char>(value.size() & 0xff);
    headers += value;
  }
  std::string out = big_endian(static_cast<uint32_t>(16 + headers.size() + payload.size())) +
                    big_endian(static_cast<uint32_t>(headers.size()));
  out += big_endian(slow_crc32(out));
  out += headers;
  out += payload;
  return out + big_endian(slow_crc32(out));
}

inline std::string base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < text.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k)
      out += i + k > text.size() ? '=' : kDigits[(bits >> (18 - 6 * k)) & 63];
  }
  return out;
}

inline http::ResponseHead head_of(std::string_view type, unsigned status = 200) {
  http::ResponseHead head;
  head.status = status;
  if (!type.empty()) head.headers.push_back({"Content-Type", std::string(type)});
  return head;
}

inline ResponseReader::Result read_answer(const Call& call, const http::ResponseHead& head,
                                          std::string_view body, size_t step = std::string::npos,
                                          bool whole = true) {
  ResponseReader reader(call);
  reader.head(head);
  for (size_t at = 0; at < body.size(); at += std::min(step, body.size()))
    reader.feed(body.substr(at, step));
  reader.finish(whole);
  return reader.result();
}

}
