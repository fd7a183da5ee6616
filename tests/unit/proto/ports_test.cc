#include "mvm/proto/ports.h"

#include <gtest/gtest.h>

#include "mvm/proto/cbor.h"

namespace mvm::proto {

static PublishedPort port(std::string_view address, uint16_t host, uint16_t guest) {
  return {IpAddress::parse(address).value(), host, guest};
}

TEST(PublishedPort, IsReadAsPeopleWriteIt) {
  EXPECT_EQ(parse_published_port("8080:80"), port("127.0.0.1", 8080, 80));
  EXPECT_EQ(parse_published_port("0:65535"), port("127.0.0.1", 0, 65535));
  EXPECT_EQ(parse_published_port("192.0.2.1:8080:80"), port("192.0.2.1", 8080, 80));
  EXPECT_EQ(parse_published_port("[::1]:8080:80"), port("::1", 8080, 80));
  EXPECT_EQ(parse_port_place("8080"), port("127.0.0.1", 8080, 0));
  EXPECT_EQ(parse_port_place("[::1]:8080"), port("::1", 8080, 0));
  EXPECT_EQ(parse_port_place("10.0.0.1:8080:80"), port("10.0.0.1", 8080, 80));
  for (const std::string_view text : {"",
                                      "80",
                                      ":80",
                                      "80:",
                                      "8080:0",
                                      "65536:80",
                                      "80:65536",
                                      "-1:80",
                                      "+80:80",
                                      " 80:80",
                                      "80:80 ",
                                      "8080:80:80",
                                      "::1:80:80",
                                      "[127.0.0.1]:80:80",
                                      "[::1]80:80",
                                      "[::1:80:80",
                                      "localhost:80:80",
                                      "127.1:80:80",
                                      "80:80/udp",
                                      "127.0.0.1::80",
                                      "1.2.3.4"}) {
    EXPECT_FALSE(parse_published_port(text)) << text;
    EXPECT_TRUE(published_port_complaint(text)) << text;
  }
}

TEST(PublishedPort, IsPrintedAsItIsRead) {
  for (const std::string_view text : {"127.0.0.1:8080:80", "[::1]:1:2", "0.0.0.0:0:1"})
    EXPECT_EQ(parse_published_port(text).value().text(), text);
  EXPECT_EQ(port("::1", 8080, 80).place(), "[::1]:8080");
}

TEST(PublishedPort, OnlyLoopbackIsOfThisHostAlone) {
  for (const std::string_view address : {"127.0.0.1", "127.255.255.255", "::1"})
    EXPECT_TRUE(port(address, 1, 1).is_loopback()) << address;
  for (const std::string_view address :
       {"0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "::ffff:127.0.0.1", "fe80::1"})
    EXPECT_FALSE(port(address, 1, 1).is_loopback()) << address;
}

TEST(PortMessages, RoundTrip) {
  const std::vector<PublishedPort> ports{port("127.0.0.1", 8080, 80), port("::1", 1, 65535)};
  const PortList list{ports};
  EXPECT_EQ(PortList::decode(list.encode()), list);
  const PublishRequest publish{ports};
  EXPECT_EQ(PublishRequest::decode(publish.encode()), publish);
  const UnpublishRequest unpublish{port("::1", 7, 0)};
  EXPECT_EQ(UnpublishRequest::decode(unpublish.encode()), unpublish);
}

TEST(PortMessages, RefuseWhatCannotBe) {
  PortList list;
  list.ports.assign(kMaxPublishedPorts, port("127.0.0.1", 1, 1));
  EXPECT_TRUE(PortList::decode(list.encode()));
  list.ports.push_back(list.ports.front());
  EXPECT_FALSE(PortList::decode(list.encode()));
  EXPECT_FALSE(PublishRequest::decode(PublishRequest{{port("::1", 1, 0)}}.encode()));
  // An address of five bytes, none at all, and a request that names no port.
  for (const bool with_address : {true, false}) {
    Bytes out;
    {
      MapWriter map(out);
      map.field("ports").array(1);
      MapWriter item(out);
      if (with_address) item.string("address", "12345");
      item.unsigned_integer("guest", 80);
    }
    EXPECT_FALSE(PortList::decode(out));
  }
  EXPECT_FALSE(UnpublishRequest::decode(PublishRequest{}.encode()));
}

}
