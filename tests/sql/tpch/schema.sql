CREATE TABLE region (r_regionkey int NOT NULL, r_name text NOT NULL, r_comment text NOT NULL);
CREATE TABLE nation (n_nationkey int NOT NULL, n_name text NOT NULL, n_regionkey int NOT NULL, n_comment text NOT NULL);
CREATE TABLE part (p_partkey int NOT NULL, p_name text NOT NULL, p_mfgr text NOT NULL, p_brand text NOT NULL,
    p_type text NOT NULL, p_size int NOT NULL, p_container text NOT NULL, p_retailprice decimal(15,2) NOT NULL,
    p_comment text NOT NULL);
CREATE TABLE supplier (s_suppkey int NOT NULL, s_name text NOT NULL, s_address text NOT NULL, s_nationkey int NOT NULL,
    s_phone text NOT NULL, s_acctbal decimal(15,2) NOT NULL, s_comment text NOT NULL);
CREATE TABLE partsupp (ps_partkey int NOT NULL, ps_suppkey int NOT NULL, ps_availqty int NOT NULL,
    ps_supplycost decimal(15,2) NOT NULL, ps_comment text NOT NULL);
CREATE TABLE customer (c_custkey int NOT NULL, c_name text NOT NULL, c_address text NOT NULL, c_nationkey int NOT NULL,
    c_phone text NOT NULL, c_acctbal decimal(15,2) NOT NULL, c_mktsegment text NOT NULL, c_comment text NOT NULL);
CREATE TABLE orders (o_orderkey int NOT NULL, o_custkey int NOT NULL, o_orderstatus text NOT NULL,
    o_totalprice decimal(15,2) NOT NULL, o_orderdate date NOT NULL, o_orderpriority text NOT NULL, o_clerk text NOT NULL,
    o_shippriority int NOT NULL, o_comment text NOT NULL);
CREATE TABLE lineitem (l_orderkey int NOT NULL, l_partkey int NOT NULL, l_suppkey int NOT NULL, l_linenumber int NOT NULL,
    l_quantity decimal(15,2) NOT NULL, l_extendedprice decimal(15,2) NOT NULL, l_discount decimal(15,2) NOT NULL,
    l_tax decimal(15,2) NOT NULL, l_returnflag text NOT NULL, l_linestatus text NOT NULL, l_shipdate date NOT NULL,
    l_commitdate date NOT NULL, l_receiptdate date NOT NULL, l_shipinstruct text NOT NULL, l_shipmode text NOT NULL,
    l_comment text NOT NULL);
