#include "mvm/proto/copy.h"

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mvm/base/error.h"

namespace mvm::proto {

static Entry file(std::string path) {
  return {EntryType::File, 0644, 1, 2, -5, 999999999, 3, std::move(path), ""};
}
static Entry directory(std::string path) {
  return {EntryType::Directory, 0755, 0, 0, 1, 0, 0, std::move(path), ""};
}

// What a stream says, one line an event.
static std::vector<std::string> read(EntryDecoder& decoder, ByteView wire, size_t step) {
  std::vector<std::string> lines;
  std::string content;
  while (!wire.empty()) {
    ByteView piece = wire.first(std::min(step, wire.size()));
    wire = wire.subspan(piece.size());
    while (const auto event = decoder.next(piece)) {
      switch (event->what) {
        case EntryEvent::What::Entry:
          lines.push_back("entry " + event->entry.path + " -> " + event->entry.target);
          break;
        case EntryEvent::What::Content:
          content += as_text(event->content);
          break;
        case EntryEvent::What::Hole:
          content += "<" + std::to_string(event->hole) + ">";
          break;
        case EntryEvent::What::ContentEnd:
          lines.push_back("content " + content);
          content.clear();
          break;
        case EntryEvent::What::TreeEnd:
          lines.emplace_back("end");
          break;
      }
    }
    if (decoder.faulted()) lines.emplace_back("fault");
    if (decoder.faulted()) break;
    EXPECT_TRUE(piece.empty());
  }
  return lines;
}

TEST(EntryDecoder, ReadsATreeHoweverItIsCut) {
  Bytes wire;
  append_entry(wire, directory(""));
  append_entry(wire, file("a"));
  append_chunk(wire, as_bytes("hel"));
  append_chunk(wire, as_bytes("lo"));
  append_hole(wire, uint64_t{5} << 30);
  append_content_end(wire);
  append_entry(wire, {EntryType::Symlink, 0777, 0, 0, 0, 0, 0, "l", "../../etc/passwd"});
  append_entry(wire, directory("d"));
  append_entry(wire, file("d/empty"));
  append_content_end(wire);
  append_tree_end(wire);
  const std::vector<std::string> expected{"entry  -> ",
                                          "entry a -> ",
                                          "content hello<5368709120>",
                                          "entry l -> ../../etc/passwd",
                                          "entry d -> ",
                                          "entry d/empty -> ",
                                          "content ",
                                          "end"};
  for (const size_t step : {size_t{1}, size_t{7}, wire.size()}) {
    EntryDecoder decoder;
    EXPECT_EQ(read(decoder, wire, step), expected) << step;
    EXPECT_TRUE(decoder.finished());
  }
}

TEST(EntryDecoder, RoundTripsMetadata) {
  Bytes wire;
  append_entry(wire, file(""));
  EntryDecoder decoder;
  ByteView data = wire;
  const auto event = decoder.next(data);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->entry, file(""));
}

TEST(TreePath, AcceptsOrdinaryRelativePathsOnly) {
  for (const std::string good : {"a", "a/b", "...", ".hidden", "a b/\xFF"})
    EXPECT_TRUE(is_tree_path(good)) << good;
  for (const std::string bad :
       {"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a/../b"})
    EXPECT_FALSE(is_tree_path(bad)) << bad;
  EXPECT_FALSE(is_tree_path(std::string("a\0b", 3)));
  EXPECT_TRUE(is_tree_path(std::string(kMaxPath, 'a')));
  EXPECT_FALSE(is_tree_path(std::string(kMaxPath + 1, 'a')));
  std::string deep = "d";
  for (size_t i = 1; i < kMaxCopyDepth; ++i) deep += "/d";
  EXPECT_TRUE(is_tree_path(deep));
  EXPECT_FALSE(is_tree_path(deep + "/d"));
}

TEST(AppendEntry, RefusesWhatADecoderWould) {
  Bytes out;
  EXPECT_THROW(append_entry(out, file("../x")), Error);
  EXPECT_THROW(append_entry(out, {EntryType::Symlink, 0777, 0, 0, 0, 0, 0, "l", ""}), Error);
  EXPECT_THROW(append_entry(out, {EntryType::File, 0100644, 0, 0, 0, 0, 0, "f", ""}), Error);
  EXPECT_TRUE(out.empty());
}

// Offsets into an entry's head, as copy.h lays it out.
static constexpr size_t kTypeAt = 0;
static constexpr size_t kModeAt = 1;
static constexpr size_t kNanosecondsAt = 21;
static constexpr size_t kPathLengthAt = 33;
static constexpr size_t kTargetLengthAt = 35;
static constexpr size_t kPathAt = 37;

TEST(EntryDecoder, LetsContentBeReadBesideIt) {
  Bytes wire;
  append_entry(wire, file(""));
  append_chunk(wire, as_bytes("content"));
  append_chunk_head(wire, 4);
  EntryDecoder decoder;
  EXPECT_EQ(decoder.content_left(), 0U);
  ByteView rest = ByteView(wire).first(wire.size() - 8);  // up to "con"
  EXPECT_EQ(decoder.next(rest)->what, EntryEvent::What::Entry);
  EXPECT_EQ(decoder.next(rest)->what, EntryEvent::What::Content);
  EXPECT_EQ(decoder.content_left(), 4U);
  decoder.skip(3);
  EXPECT_EQ(decoder.content_left(), 1U);
  EXPECT_EQ(decoder.chunk_head_left(), 0U);
  rest = ByteView(wire).last(5);
  EXPECT_EQ(as_text(decoder.next(rest)->content), "t");
  EXPECT_EQ(decoder.next(rest), std::nullopt);
  EXPECT_EQ(decoder.content_left(), 4U);
  decoder.skip(4);
  EXPECT_EQ(decoder.content_left(), 0U);
  EXPECT_EQ(decoder.chunk_head_left(), 4U);
  const Bytes end(4);
  rest = ByteView(end).first(1);
  EXPECT_EQ(decoder.next(rest), std::nullopt);
  EXPECT_EQ(decoder.chunk_head_left(), 3U);
  rest = ByteView(end).last(3);
  EXPECT_EQ(decoder.next(rest)->what, EntryEvent::What::ContentEnd);
}

TEST(EntryDecoder, FaultsOnHostileStreams) {
  const auto faults = [](auto change) {
    Bytes wire;
    append_entry(wire, directory(""));
    const size_t second = wire.size();
    append_entry(wire, file("ab"));
    append_chunk(wire, as_bytes("x"));
    append_content_end(wire);
    append_tree_end(wire);
    change(wire, second);
    EntryDecoder decoder;
    read(decoder, wire, wire.size());
    return decoder.faulted();
  };
  const auto put = [](size_t at, std::vector<uint8_t> bytes) {
    return [at, bytes](Bytes& wire, size_t second) {
      for (size_t i = 0; i < bytes.size(); ++i) wire[second + at + i] = std::byte{bytes[i]};
    };
  };
  EXPECT_FALSE(faults([](Bytes&, size_t) {}));
  EXPECT_TRUE(faults(put(kTypeAt, {4})));
  EXPECT_TRUE(faults(put(kModeAt, {0, 0x10})));  // beyond 07777
  EXPECT_TRUE(faults(put(kNanosecondsAt, {0xFF, 0xFF, 0xFF, 0xFF})));
  EXPECT_TRUE(faults(put(kPathLengthAt, {0xFF, 0xFF})));
  EXPECT_TRUE(faults(put(kTargetLengthAt, {0xFF, 0xFF})));
  EXPECT_TRUE(faults(put(kPathAt, {'.', '.'})));
  EXPECT_TRUE(faults(put(kPathAt, {'/', 'b'})));
  EXPECT_TRUE(faults(put(kPathAt, {'a', 0})));
  EXPECT_TRUE(faults(put(kPathAt + 2, {0x01, 0x00, 0x10, 0x00})));  // a chunk above kMaxChunk
  for (const uint64_t length : {uint64_t{0}, kMaxHole + 1, UINT64_MAX}) {
    EXPECT_TRUE(faults([&](Bytes& wire, size_t second) {
      Bytes hole;
      append_hole(hole, 1);
      std::memcpy(hole.data() + 4, &length, sizeof length);
      wire.insert(wire.begin() + static_cast<std::ptrdiff_t>(second + kPathAt + 2), hole.begin(),
                  hole.end());
    })) << length;
  }
  EXPECT_TRUE(faults([](Bytes& wire, size_t) { wire.push_back(std::byte{0}); }));  // after the end
  EXPECT_TRUE(faults([](Bytes& wire, size_t) { wire = Bytes(1); }));  // a tree of nothing
  // The first entry is the thing itself, and no other is.
  EXPECT_TRUE(faults([](Bytes& wire, size_t second) {
    wire.erase(wire.begin(), wire.begin() + static_cast<std::ptrdiff_t>(second));
  }));
  EXPECT_TRUE(faults([](Bytes& wire, size_t second) {
    const Bytes root(wire.begin(), wire.begin() + static_cast<std::ptrdiff_t>(second));
    wire.insert(wire.begin(), root.begin(), root.end());
  }));
}

TEST(CopyMessages, RoundTrip) {
  const PutRequest put{"/work", "data.csv", "1000:1000", true, true};
  EXPECT_EQ(PutRequest::decode(put.encode()), put);
  const PutRequest plain{"/work/x", "", "", false, false};
  EXPECT_EQ(PutRequest::decode(plain.encode()), plain);
  EXPECT_EQ(LaneOpened::decode(LaneOpened{5253}.encode()), LaneOpened{5253});
  EXPECT_FALSE(LaneOpened::decode(LaneOpened{0}.encode()));
  const GetRequest get{"/etc/hosts", true};
  EXPECT_EQ(GetRequest::decode(get.encode()), get);
  const CopyResult result{1, 2, 3};
  EXPECT_EQ(CopyResult::decode(result.encode()), result);
}

TEST(CopyMessages, RefuseBadPathsAndNames) {
  const auto put = [](std::string path, std::string name) {
    return PutRequest::decode(
               PutRequest{std::move(path), std::move(name), "", false, false}.encode())
        .has_value();
  };
  EXPECT_TRUE(put("/a", "b"));
  EXPECT_FALSE(put("a", "b"));
  EXPECT_FALSE(put("", "b"));
  EXPECT_FALSE(put("/a", ".."));
  EXPECT_FALSE(put("/a", "b/c"));
  EXPECT_FALSE(put(std::string("/a\0", 3), "b"));
  EXPECT_FALSE(GetRequest::decode(GetRequest{"relative", false}.encode()));
}

}
