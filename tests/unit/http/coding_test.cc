#include "mvm/http/coding.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

namespace mvm::http {
namespace {

constexpr std::array kAll{Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd};
using Codings = std::vector<Coding>;

std::string sample(size_t size) {
  std::mt19937 random(3);
  std::string text;
  while (text.size() < size) text += "line " + std::to_string(random() % 1000) + ", ";
  return text;
}

std::string encoded(const Codings& codings, std::string_view text, size_t step = 65536) {
  Encoder encoder(codings);
  Bytes out;
  for (size_t at = 0; at < text.size(); at += step)
    encoder.write(as_bytes(text.substr(at, step)), false, out);
  encoder.finish(out);
  return std::string(as_text(out));
}

// What comes out, and how it ended.
std::string decoded(const Codings& codings, std::string_view data, size_t step = 65536,
                    size_t room = 65536, const DecodeLimits& limits = {}) {
  Decoder decoder(codings, limits);
  std::string text;
  for (size_t at = 0; at < data.size(); at += step) {
    // A copy of just this piece, so that reading past it is seen by the sanitizer.
    const std::string piece(data.substr(at, step));
    ByteView input = as_bytes(piece);
    Decoder::Step result = Decoder::Step::Full;
    while (result == Decoder::Step::Full) {
      Bytes out;
      result = decoder.next(input, out, room);
      EXPECT_LE(out.size(), room);
      text += as_text(out);
    }
    if (result == Decoder::Step::Bad) return text + "[" + std::string(decoder.problem()) + "]";
    EXPECT_TRUE(input.empty());
  }
  return text + (decoder.whole() ? "" : "[cut]");
}

std::string from_hex(std::string_view hex) {
  std::string out;
  for (size_t at = 0; at < hex.size(); at += 2)
    out += static_cast<char>(std::stoi(std::string(hex.substr(at, 2)), nullptr, 16));
  return out;
}

}

TEST(Coding, RoundTripsEachInPiecesOfAnySize) {
  const std::string text = sample(300000);
  for (const Coding coding : kAll) {
    const std::string data = encoded({coding}, text, 7001);
    EXPECT_LT(data.size(), text.size() / 2) << coding_name(coding);
    EXPECT_TRUE(decoded({coding}, data) == text) << coding_name(coding);
    EXPECT_TRUE(decoded({coding}, data, 1) == text) << coding_name(coding);
    EXPECT_TRUE(decoded({coding}, data, 997, 13) == text) << coding_name(coding);
  }
}

TEST(Coding, RoundTripsListsInPiecesOfAnySize) {
  const std::string text = sample(100000);
  for (const Coding first : kAll) {
    for (const Coding second : kAll) {
      const Codings codings{first, second};
      const std::string data = encoded(codings, text, 5000);
      EXPECT_TRUE(decoded(codings, data) == text);
      EXPECT_TRUE(decoded(codings, data, 1) == text);
    }
  }
  const Codings three{Coding::Gzip, Coding::Zstd, Coding::Brotli};
  EXPECT_TRUE(decoded(three, encoded(three, text), 100, 100) == text);
}

TEST(Coding, NothingIsValidInEach) {
  for (const Coding coding : kAll) {
    EXPECT_EQ(decoded({coding}, encoded({coding}, "")), "");
    EXPECT_EQ(decoded({coding}, ""), "");
  }
}

// An event of a stream must not wait for the next one.
TEST(Coding, WhatWasFlushedCanBeDecodedAtOnce) {
  for (const Coding first : kAll) {
    for (const Codings& codings : {Codings{first}, Codings{first, Coding::Gzip}}) {
      Encoder encoder(codings);
      Decoder decoder(codings);
      for (int i = 0; i < 100; ++i) {
        const std::string event = "data: " + std::to_string(i) + "\n\n";
        Bytes wire;
        encoder.write(as_bytes(event), true, wire);
        ByteView input = wire;
        Bytes text;
        ASSERT_EQ(decoder.next(input, text, 1000), Decoder::Step::More);
        ASSERT_EQ(as_text(text), event) << coding_name(first);
      }
      Bytes wire;
      encoder.finish(wire);
      ByteView input = wire;
      Bytes text;
      EXPECT_EQ(decoder.next(input, text, 1000), Decoder::Step::More);
      EXPECT_TRUE(text.empty() && decoder.whole());
    }
  }
}

TEST(Coding, DataOfOtherEncodersIsRead) {
  // gzip -n; zlib's compress and its raw form in Python.
  EXPECT_EQ(decoded({Coding::Gzip},
                    from_hex("1f8b0800000000000003cb48cdc9c957c840905c003b7c8adf12000000"), 1),
            "hello hello hello\n");
  EXPECT_EQ(decoded({Coding::Deflate}, from_hex("789ccb48cdc9c957c840905c0040b50687"), 1),
            "hello hello hello\n");
  EXPECT_EQ(decoded({Coding::Deflate}, from_hex("cb48cdc9c957c840905c00"), 1),
            "hello hello hello\n");
  EXPECT_EQ(decoded({Coding::Deflate}, from_hex("0300"), 1), "");
}

TEST(Coding, MembersAndFramesFollowEachOther) {
  for (const Coding coding : {Coding::Gzip, Coding::Zstd})
    EXPECT_EQ(decoded({coding}, encoded({coding}, "one ") + encoded({coding}, "two"), 1),
              "one two");
}

TEST(Coding, NothingStandsBehindTheEnd) {
  for (const Coding coding : kAll) {
    const std::string data = encoded({coding}, "text") + "GET / HTTP/1.1";
    EXPECT_TRUE(decoded({coding}, data).ends_with("]")) << coding_name(coding);
    EXPECT_TRUE(decoded({coding}, data, 1).ends_with("]")) << coding_name(coding);
  }
}

TEST(Coding, CutDataIsNotWhole) {
  const std::string text = sample(2000);
  for (const Coding coding : kAll) {
    const std::string data = encoded({coding}, text);
    for (size_t length = 1; length < data.size(); ++length)
      ASSERT_TRUE(decoded({coding}, data.substr(0, length)).ends_with("[cut]"))
          << coding_name(coding) << " " << length;
  }
}

TEST(Coding, DamageIsSaid) {
  for (const Coding coding : kAll) {
    const std::string name(coding_name(coding));
    EXPECT_EQ(decoded({coding}, std::string(100, '\xff')).find("[its " + name + " data is damaged"),
              0U);
  }
  std::string data = encoded({Coding::Gzip}, sample(1000));
  data[data.size() - 6] ^= 1;  // the checksum
  EXPECT_TRUE(decoded({Coding::Gzip}, data).ends_with("[its gzip data is damaged]"));
}

TEST(Coding, WhatCameBeforeDamageIsGiven) {
  for (const Codings& codings : {Codings{Coding::Gzip}, Codings{Coding::Brotli, Coding::Gzip}}) {
    std::string data = encoded(codings, "before the damage");
    data[data.size() - 8] ^= 1;  // the sum
    for (const size_t room : {size_t{3}, size_t{65536}})
      EXPECT_EQ(decoded(codings, data, 65536, room), "before the damage[its gzip data is damaged]");
  }
}

TEST(Coding, LittleMayNotGrowToMuch) {
  const std::string zeroes(size_t{16} << 20, '\0');
  for (const Coding coding : kAll) {
    const std::string text = decoded({coding}, encoded({coding}, zeroes));
    EXPECT_TRUE(text.ends_with("[its data grows too much when decoded]")) << coding_name(coding);
    EXPECT_LT(text.size(), size_t{8} << 20);
    EXPECT_TRUE(decoded({coding}, encoded({coding}, zeroes), 65536, 65536,
                        {.allowance = zeroes.size(), .ratio = 1}) == zeroes);
  }
}

// The outer data grows to frames that stand for nothing.
TEST(Coding, GrowthWithinAListCountsToo) {
  std::string frames;
  while (frames.size() < (size_t{16} << 20)) frames += from_hex("502a4d1800000000");
  const std::string data = encoded({Coding::Gzip}, frames);
  EXPECT_EQ(decoded({Coding::Zstd, Coding::Gzip}, data), "[its data grows too much when decoded]");
}

TEST(Coding, LargeWindowsAreRefused) {
  // A frame's header that asks for 16 MiB, and one that asks for 8.
  EXPECT_TRUE(decoded({Coding::Zstd}, from_hex("28b52ffd0070010000")).ends_with("8 MiB]"));
  EXPECT_EQ(decoded({Coding::Zstd}, from_hex("28b52ffd0068010000")), "");
}

TEST(Coding, ListsAreReadInTheirOrder) {
  const auto of = [](std::initializer_list<std::string> values) {
    Headers headers;
    for (const std::string& value : values) headers.push_back({"content-Encoding", value});
    return content_codings(headers);
  };
  EXPECT_EQ(of({}), Codings{});
  EXPECT_EQ(of({""}), Codings{});
  EXPECT_EQ(of({"identity"}), Codings{});
  EXPECT_EQ(of({"GZip"}), Codings{Coding::Gzip});
  EXPECT_EQ(of({"x-gzip , br", "zstd"}), (Codings{Coding::Gzip, Coding::Brotli, Coding::Zstd}));
  EXPECT_EQ(of({"gzip, compress"}), std::nullopt);
  EXPECT_EQ(of({"gzip;q=1"}), std::nullopt);
  EXPECT_EQ(of({"aes128gcm"}), std::nullopt);
  EXPECT_EQ(of({"gzip, gzip, gzip, gzip"}), std::nullopt);
}

TEST(Coding, AcceptsOnlyWhatItKnows) {
  const auto restricted = [](std::string value) {
    Headers headers{{"Accept-Encoding", std::move(value)}};
    restrict_accept_encoding(headers);
    return headers[0].value;
  };
  EXPECT_EQ(restricted("gzip, deflate, br, zstd"), "gzip, deflate, br, zstd");
  EXPECT_EQ(restricted("gzip;q=0.5,dcb , br ; q=1,identity;q=0"),
            "gzip;q=0.5, br ; q=1, identity;q=0");
  EXPECT_EQ(restricted("*"), "identity");
  EXPECT_EQ(restricted("dcz"), "identity");
  EXPECT_EQ(restricted(""), "identity");
  Headers none;
  restrict_accept_encoding(none);
  EXPECT_TRUE(none.empty());
}

}
