package main

// catalogue returns the stock that every process starts with.
func catalogue() []Item {
	return []Item{
		{SKU: "BRG-6204", Name: "Ball bearing 6204", Warehouse: "harbour", Serial: "HB-90417-KX", PriceCents: 1273, Quantity: 148},
		{SKU: "BRG-6310", Name: "Ball bearing 6310", Warehouse: "mill", Serial: "ML-33802-QD", PriceCents: 4189, Quantity: 17},
		{SKU: "CPL-0042", Name: "Jaw coupling 42 mm", Warehouse: "mill", Serial: "ML-71156-TB", PriceCents: 2957, Quantity: 6},
		{SKU: "FLT-0815", Name: "Oil filter 8 µm", Warehouse: "harbour", Serial: "HB-20663-NW", PriceCents: 1847, Quantity: 93},
		{SKU: "MTR-2200", Name: "Servo motor 2.2 kW", Warehouse: "quarry", Serial: "QY-58204-ZR", PriceCents: 61739, Quantity: 3},
		{SKU: "PMP-0117", Name: "Gear pump 17 ml", Warehouse: "quarry", Serial: "QY-10988-FJ", PriceCents: 23461, Quantity: 0},
		{SKU: "SEL-0330", Name: "Shaft seal 33 mm", Warehouse: "harbour", Serial: "HB-46471-VC", PriceCents: 389, Quantity: 612},
		{SKU: "VLV-0508", Name: "Check valve 8 mm", Warehouse: "mill", Serial: "ML-85930-HP", PriceCents: 1531, Quantity: 41},
	}
}
